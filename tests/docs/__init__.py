"""Tests of `apass/docs`."""
