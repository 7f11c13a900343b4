"""Tests of `apass/pipelines`."""
