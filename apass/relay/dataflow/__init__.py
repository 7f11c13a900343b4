"""Dataflow analyses: scopes, dominators and effects."""
