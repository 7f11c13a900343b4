"""Tests of pauses."""
