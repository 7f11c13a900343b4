"""Tests of `apass/runner`."""
