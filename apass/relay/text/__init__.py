"""Relay's text format: the printer, the parser and shared modules."""
