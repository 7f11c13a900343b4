"""Tests of `apass/passes`."""
