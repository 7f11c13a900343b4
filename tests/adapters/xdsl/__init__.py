"""Tests of `apass/adapters/xdsl`."""
