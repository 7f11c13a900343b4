"""Tests of `python -m benchmarks`."""
