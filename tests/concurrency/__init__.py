"""Tests of `apass/concurrency`."""
