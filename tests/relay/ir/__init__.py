"""Tests of `apass/relay/ir`."""
