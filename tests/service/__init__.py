"""Tests of `apass.service`."""
