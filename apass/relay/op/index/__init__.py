"""Operators that read, write, search and sort elements by index."""
