"""Tests of `apass.relay.text.serialization`."""
