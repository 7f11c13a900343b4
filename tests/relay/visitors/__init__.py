"""Tests of `apass/relay/visitors`."""
