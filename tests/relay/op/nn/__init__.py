"""Tests of the operators of neural networks."""
