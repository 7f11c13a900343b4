"""Pattern tables of external code generators: `relay.op.contrib`."""

from apass.relay.op.contrib.register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "register_pattern_table"]
