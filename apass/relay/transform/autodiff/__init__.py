"""Automatic differentiation in reverse mode: first and higher order."""
