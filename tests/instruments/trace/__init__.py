"""Tests of the trace instrument."""
