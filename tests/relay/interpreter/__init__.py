"""Tests of `apass/relay/interpreter`."""
