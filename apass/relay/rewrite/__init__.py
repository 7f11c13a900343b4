"""Rewrites shared by several passes: substitution, renaming and Let binding."""
