"""Tests of `apass/debugging/run_diff`."""
