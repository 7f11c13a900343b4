"""Tests of `apass/relay/text`."""
