"""Tests of the operators."""
