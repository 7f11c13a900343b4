"""Tables of patterns by the name of the compiler that can take what they match: for MergeComposite."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar, overload

from apass.errors import PassRegistrationError, did_you_mean
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.expr import Expr

__all__ = ["PatternEntry", "TableFactory", "get_pattern_table", "register_pattern_table"]

PatternEntry: TypeAlias = tuple[str, DFPattern] | tuple[str, DFPattern, Callable[[Expr], bool]]
"""The name of a pattern, the pattern, and optionally a check, which is given a match and tells whether to take it."""
TableFactory: TypeAlias = Callable[[], Sequence[PatternEntry]]
"""What makes a table when it is asked for."""

FactoryT = TypeVar("FactoryT", bound=TableFactory)

_TABLES: Final[dict[str, TableFactory]] = {}


@overload
def register_pattern_table(compiler: str, table: FactoryT) -> FactoryT: ...
@overload
def register_pattern_table(compiler: str, table: None = None) -> Callable[[FactoryT], FactoryT]: ...
def register_pattern_table(compiler: str, table: TableFactory | None = None) -> object:
    """Make a table known by the name of a compiler; as a decorator, or called with the function that makes the table.

    Raises:
        PassRegistrationError: if there is a table of that name.

    >>> from apass.relay.dataflow_pattern import is_op, wildcard
    >>> @register_pattern_table("demo")
    ... def demo_patterns():
    ...     return [("demo.relu", is_op("nn.relu")(wildcard()))]
    >>> [name for name, pattern in get_pattern_table("demo")]
    ['demo.relu']
    """
    return partial(_register, compiler) if table is None else _register(compiler, table)


def get_pattern_table(compiler: str) -> list[PatternEntry]:
    """Return the table of a compiler.

    Raises:
        KeyError: if there is none of the name; the message suggests the nearest one.

    """
    if compiler not in _TABLES:
        hint = did_you_mean(compiler, _TABLES, listing="there are: ")
        raise KeyError(f"there is no pattern table named {compiler!r}{hint}")
    return list(_TABLES[compiler]())


def _register(compiler: str, table: FactoryT) -> FactoryT:
    if compiler in _TABLES:
        raise PassRegistrationError(f"there is a pattern table named {compiler!r} already")
    _TABLES[compiler] = table
    return table
