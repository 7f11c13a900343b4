"""Tests of `apass/core`."""
