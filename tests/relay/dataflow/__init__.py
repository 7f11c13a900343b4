"""Tests of `apass/relay/dataflow`."""
