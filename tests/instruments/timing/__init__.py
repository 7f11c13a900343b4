"""Tests of the timing instruments."""
