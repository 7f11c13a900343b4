"""Tests of the pattern language."""
