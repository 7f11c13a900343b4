"""Tests of `apass/relay/std`."""
