"""Timing instruments for passes and functions, and the tables of their results."""
