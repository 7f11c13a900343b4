"""Pipelines: the text parser, plans, and resumption after a pass."""
