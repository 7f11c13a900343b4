"""Tests of `apass/relay/integration`."""
