"""Helpers based on the standard library, independent of passes."""
