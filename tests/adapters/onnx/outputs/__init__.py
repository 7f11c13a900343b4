"""Tests of the comparison of outputs."""
