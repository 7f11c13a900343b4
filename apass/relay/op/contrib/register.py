"""Registry of pattern tables by compiler name, for MergeComposite.

A pattern table lists the patterns that an external code generator (a "compiler" in TVM) supports.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar, overload

from apass.errors import PassRegistrationError, did_you_mean
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.ir.expr import Expr

__all__ = ["PatternEntry", "TableFactory", "get_pattern_table", "register_pattern_table"]

PatternEntry: TypeAlias = tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Expr], bool]]
"""The name of a pattern, the pattern, and optionally a check. The check returns whether to accept a match."""
TableFactory: TypeAlias = Callable[[], Sequence[PatternEntry]]
"""A function that returns a table; it is called each time the table is requested."""

FactoryT = TypeVar("FactoryT", bound=TableFactory)

_TABLES: Final[dict[str, TableFactory]] = {}


@overload
def register_pattern_table(compiler: str, table: FactoryT) -> FactoryT: ...
@overload
def register_pattern_table(compiler: str, table: None = None) -> Callable[[FactoryT], FactoryT]: ...
def register_pattern_table(compiler: str, table: TableFactory | None = None) -> object:
    """Register the pattern table of a compiler.

    Call it with the function that returns the table, or use it as a decorator of that function.

    Raises:
        PassRegistrationError: if the compiler has a table already.

    >>> from apass.relay.dataflow_pattern import is_op, wildcard
    >>> @register_pattern_table("demo")
    ... def demo_patterns():
    ...     return [("demo.relu", is_op("nn.relu")(wildcard()))]
    >>> [name for name, pattern in get_pattern_table("demo")]
    ['demo.relu']
    """
    return partial(_register, compiler) if table is None else _register(compiler, table)


def get_pattern_table(compiler: str) -> list[PatternEntry]:
    """Return the pattern table of a compiler.

    Raises:
        KeyError: if the compiler has no table; the message suggests the nearest name.

    """
    if compiler not in _TABLES:
        hint = did_you_mean(compiler, _TABLES, listing="registered tables: ")
        raise KeyError(f"no pattern table is registered for compiler {compiler!r}{hint}")
    return list(_TABLES[compiler]())


def _register(compiler: str, table: FactoryT) -> FactoryT:
    if compiler in _TABLES:
        raise PassRegistrationError(f"a pattern table is already registered for compiler {compiler!r}")
    _TABLES[compiler] = table
    return table
