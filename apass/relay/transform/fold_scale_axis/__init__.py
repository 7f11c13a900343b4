"""Passes that fold a scale along an axis into weights."""
