"""Tests of `apass/relay/testing`."""
