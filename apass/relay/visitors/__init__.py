"""Visitors and mutators of expressions and types, without a depth limit."""
