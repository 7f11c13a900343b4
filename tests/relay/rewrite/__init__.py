"""Tests of `apass/relay/rewrite`."""
