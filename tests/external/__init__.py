"""Tests of the external helpers."""
