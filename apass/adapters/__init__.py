"""Adapters to IRs, one file each, imported when the first module of their type arrives."""
