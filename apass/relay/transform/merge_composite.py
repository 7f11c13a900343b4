"""MergeComposite: what matches a table of patterns becomes composite functions; TVM's `merge_composite.cc`."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from apass.core.context import PassContext
from apass.errors import PassDefinitionError
from apass.passes.base import FunctionPass
from apass.passes.registry import provide_pass
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.dataflow_pattern.syntax import partition
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.op.contrib.register import PatternEntry, get_pattern_table
from apass.relay.transform.support.decorators import function_pass
from apass.relay.type_inference.infer import infer_function

__all__ = ["COMPOSITE", "MergeComposite", "merge_composite"]

COMPOSITE = "Composite"
"""The attribute of a function that stands for a pattern: its name."""

_Check: TypeAlias = Callable[[Expr], bool]


def merge_composite(func: Function, pattern_table: Sequence[PatternEntry], mod: IRModule) -> Function:
    """Return a function with all that the patterns match in functions that it calls, typed.

    Such a function has the attribute `Composite`, the name of its pattern, and those that `partition` sets. The
    patterns are searched for in turn, so one that is a part of another comes after it. What is in a composite function
    is not searched again.

    Parameters:
        func: the function, typed.
        pattern_table: for each pattern its name, the pattern, and optionally a check, which is given the match.
        mod: the module of the function.

    Raises:
        PassDefinitionError: if an entry of the table is none.

    """
    for name, pattern, check in map(_read, pattern_table):
        merged = partition(pattern, func, {COMPOSITE: name}, check)
        assert isinstance(merged, Function), "what is in a function changes, never the function"
        func = infer_function(merged, mod)
    return func


@provide_pass("MergeComposite")
def MergeComposite(pattern_table: str | list[PatternEntry]) -> FunctionPass[IRModule, Function]:
    """Put what matches the patterns of a table, or of the registered one of a name, into composite functions."""
    table = get_pattern_table(pattern_table) if isinstance(pattern_table, str) else list(pattern_table)
    for entry in table:
        _read(entry)

    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return merge_composite(func, table, mod)

    return function_pass(merge, opt_level=0, name="MergeComposite")


def _read(entry: PatternEntry) -> tuple[str, DFPattern, _Check]:
    """Return name, pattern and check of an entry of a table."""
    if 2 <= len(entry) <= 3:
        name, pattern, check = entry if len(entry) == 3 else (*entry, _always)
        if isinstance(name, str) and isinstance(pattern, DFPattern) and callable(check):
            return name, pattern, check
    raise PassDefinitionError(
        f"an entry of a pattern table is (name, pattern) or (name, pattern, check), not {entry!r}"
    )


def _always(match: Expr) -> bool:
    return True
