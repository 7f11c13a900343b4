"""Passes that combine parallel branches into one wider operator."""
