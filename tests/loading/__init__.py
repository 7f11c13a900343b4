"""Tests of `apass/loading`."""
