"""Tests of the models and tools for tests."""
