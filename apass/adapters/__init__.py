"""Adapters to IRs, each imported for the first module of its type."""
