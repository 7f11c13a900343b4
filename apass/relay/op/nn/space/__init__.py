"""Operators that move elements between space, depth and batch."""
