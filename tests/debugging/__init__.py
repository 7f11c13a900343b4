"""Tests of `apass/debugging`."""
