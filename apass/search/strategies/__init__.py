"""Strategies of a search: they propose candidates, and learn from values."""
