"""Tests of `apass/relay/type_inference`."""
