"""Tests of `apass/relay/frontend`."""
