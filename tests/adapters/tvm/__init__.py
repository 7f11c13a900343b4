"""Tests of `apass/adapters/tvm`."""
