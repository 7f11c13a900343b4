"""Operators whose shapes or sizes are computed at run time."""
