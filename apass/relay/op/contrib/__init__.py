"""Tables of patterns for compilers that take parts of a program: `relay.op.contrib`."""

from apass.relay.op.contrib.register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "register_pattern_table"]
