"""Partially static values, scopes, the store of cells, and fuel.

The counterparts of `PStatic`, `Static`, `Environment`, `Store` and `Fuel` in TVM's `partial_eval.cc`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Self, TypeAlias

from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Expr, Op, Var
from apass.relay.ir.function import Function
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import Type, TypeVar

__all__ = [
    "Cell",
    "Closure",
    "Data",
    "Fields",
    "Fuel",
    "Kernel",
    "Partial",
    "Scope",
    "Static",
    "Store",
    "burned",
    "fuel_of",
]

_clock: Final = count()


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """A value of which a part may be known."""

    dynamic: Expr
    """An atom of the residual program that has the value."""
    static: "Static | None" = None
    """What is known of the value."""
    created: int = field(default_factory=lambda: next(_clock))
    """The time of creation, as a number that grows."""


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The fields of a tuple."""

    fields: Sequence[Partial]
    """The values."""


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """A value of an algebraic data type."""

    constructor: Constructor
    """The constructor."""
    fields: Sequence[Partial]
    """The arguments of the constructor."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell, whose content is in the store."""


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function with the scope in which it was created."""

    func: Function
    """The function of the original program."""
    scope: "Scope"
    """The scope of its free variables."""


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A primitive function, which is computed or kept as a whole."""

    func: Function
    """The function."""


Static: TypeAlias = NDArray | Fields | Data | Cell | Closure | Kernel | Op | Constructor
"""A known tensor, tuple, value of a data type, cell or function."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The variables of one call of a function, within the scope around the function."""

    parent: Self | None = None
    """The enclosing scope."""
    types: Mapping[TypeVar, Type] = field(default_factory=dict[TypeVar, Type])
    """The types that replace type variables."""
    values: dict[Var, Partial] = field(default_factory=dict[Var, Partial])
    """The values of the variables."""

    def find(self, var: Var) -> Partial:
        """Return the value of a variable; an unknown value for a free variable."""
        passed: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            value = scope.values.get(var)
            if value is not None:
                # Copied into the scopes between, so that lookups are fast at any nesting depth.
                for inner in passed:
                    inner.values[var] = value
                return value
            passed.append(scope)
            scope = scope.parent
        return Partial(var)


class Store:
    """The known contents of cells.

    A store that extends another one starts with its contents. Writes do not change the other one. No store is written
    while another one extends it.
    """

    __slots__ = ("_contents", "_parent")

    _parent: Self | None

    def __init__(self, parent: Self | None = None) -> None:
        self._contents: dict[Cell, Partial] = {}
        # A store without contents is skipped, so that a read does not visit one for each enclosing branch.
        self._parent = parent if parent is None or parent._contents else parent._parent

    def write(self, cell: Cell, value: Partial) -> None:
        """Set the content of a cell."""
        self._contents[cell] = value

    def read(self, cell: Cell) -> Partial | None:
        """Return the content of a cell, or None if it is unknown."""
        passed: list[Store] = []
        store: Store | None = self
        while store is not None:
            value = store._contents.get(cell)
            if value is not None:
                # Copied into the stores between, so that reads are fast in deeply nested branches that write.
                for inner in passed:
                    inner._contents[cell] = value
                return value
            passed.append(store)
            store = store._parent
        return None


Fuel: TypeAlias = tuple[int, ...]
"""A bound for nested calls of a function: for each argument its age and its number.

As in TVM, a nested call must have less fuel than the calls around it: an older argument, or one that is a smaller
positive integer. Fuel cannot decrease without end, so the nesting ends.
"""


def fuel_of(args: Iterable[Partial]) -> Fuel:
    """Return the fuel of a call with these arguments."""
    return tuple([amount for arg in args for amount in (arg.created, _number(arg))])


def burned(old: Fuel | None, new: Fuel) -> tuple[Fuel, bool]:
    """Return the fuel of a nested call, and whether it is less than that around it.

    >>> burned((7, 3), (9, 2)), burned((7, 2), (9, 2)), burned(None, (9, 2))
    (((7, 2), True), ((7, 2), False), ((9, 2), True))
    """
    if old is None or len(old) != len(new):
        return new, True
    met = tuple(map(min, old, new))
    return met, met != old


def _number(value: Partial) -> int:
    data = value.static
    if not isinstance(data, NDArray) or data.shape or data.dtype_name not in ("int32", "int64"):
        return 0
    return max(0, int(data.numpy().item()))
