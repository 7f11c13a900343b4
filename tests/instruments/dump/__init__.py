"""Tests of the dump instruments."""
