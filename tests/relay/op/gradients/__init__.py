"""Tests of the gradients of operators."""
