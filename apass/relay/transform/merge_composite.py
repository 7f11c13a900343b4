"""MergeComposite: move pattern matches into functions; TVM's `merge_composite.cc`."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.function_pass import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.dataflow_pattern.syntax import partition
from apass.relay.ir.expr import Expr
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.contrib.register import PatternEntry, get_pattern_table
from apass.relay.transform.function_pass import function_pass
from apass.relay.type_inference.infer import infer_function

__all__ = ["COMPOSITE", "MergeComposite", "merge_composite"]

COMPOSITE = "Composite"
"""Attribute of a composite function: the name of the pattern that it matched."""

_Check: TypeAlias = Callable[[Expr], bool]


def merge_composite(func: Function, pattern_table: Sequence[PatternEntry], mod: IRModule) -> Function:
    """Return the function with each match of a pattern in a composite function.

    The given function must be typed; the result is typed, too. A composite function has the attribute `Composite`, the
    name of its pattern, and the attributes that `partition` sets. Patterns are tried in the order of the table: list a
    pattern before the patterns that match a part of it. Composite functions are not searched again.

    Parameters:
        func: the function, typed.
        pattern_table: entries of a name, a pattern, and optionally a check that is called with the match.
        mod: the module of the function.

    Raises:
        PassDefinitionError: if an entry of the table is not of that form.

    """
    for name, pattern, check in map(_read, pattern_table):
        merged = partition(pattern, func, {COMPOSITE: name}, check)
        assert isinstance(merged, Function), "partition returns a function for a function"
        func = infer_function(merged, mod)
    return func


@provide_pass("MergeComposite")
def MergeComposite(pattern_table: str | list[PatternEntry]) -> FunctionPass[IRModule, Function]:
    """Move what matches a pattern table, or one registered by name, into functions."""
    table = get_pattern_table(pattern_table) if isinstance(pattern_table, str) else list(pattern_table)
    for entry in table:
        _read(entry)

    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return merge_composite(func, table, mod)

    return function_pass(merge, opt_level=0, name="MergeComposite")


def _read(entry: PatternEntry) -> tuple[str, DFPattern, _Check]:
    """Return the name, the pattern and the check of a table entry."""
    if 2 <= len(entry) <= 3:
        name, pattern, check = entry if len(entry) == 3 else (*entry, _always)
        if isinstance(name, str) and isinstance(pattern, DFPattern) and callable(check):
            return name, pattern, check
    raise PassDefinitionError(f"a pattern table entry must be (name, pattern) or (name, pattern, check), got {entry!r}")


def _always(match: Expr) -> bool:
    return True
