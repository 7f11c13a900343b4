"""Tests of `apass/relay/equivalence`."""
