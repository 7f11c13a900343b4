"""Optimizations that change a program and its parameters together."""

from apass.relay.data_dep_optimization import simplify_fc_transpose

__all__ = ["simplify_fc_transpose"]
