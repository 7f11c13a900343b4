"""Tests of `apass/relay/structural`."""
