"""Helpers shared by instruments: selection, change tracking and file names."""
