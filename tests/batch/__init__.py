"""Tests of `apass/batch`."""
