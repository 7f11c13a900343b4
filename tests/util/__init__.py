"""Tests of `apass/util`."""
