"""Algebraic data types: their definitions, constructors, and the match that takes values apart."""

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from apass.core.diagnostics import Span
from apass.relay.expr import Expr, Var, set_field
from apass.relay.ty import GlobalTypeVar, Type, TypeVar

__all__ = [
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "TypeData",
]


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Constructor(Expr):
    """A way to make a value of an algebraic data type; the value keeps the arguments for a match."""

    name_hint: str
    """The name."""
    inputs: tuple[Type, ...]
    """The types of the arguments."""
    belong_to: GlobalTypeVar
    """The data type."""
    tag: int
    """What tells its values from those of others: the place among the constructors of its data type, below 16 bits of
    the data type's name. -1 until a `TypeData` has the constructor.

    >>> from apass.relay.ty import GlobalTypeVar
    >>> box = GlobalTypeVar("Box")
    >>> data = TypeData(box, [], [Constructor("Empty", [], box), Constructor("Full", [box], box)])
    >>> [one.tag - data.constructors[0].tag for one in data.constructors]
    [0, 1]
    """

    def __init__(
        self, name_hint: str, inputs: Iterable[Type], belong_to: GlobalTypeVar, *, span: Span | None = None
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", None)
        set_field(self, "name_hint", name_hint)
        set_field(self, "inputs", tuple(inputs))
        set_field(self, "belong_to", belong_to)
        set_field(self, "tag", -1)

    def _label(self) -> str:
        return f" {self.name_hint}"


@dataclass(frozen=True, slots=True, eq=False, init=False)
class TypeData:
    """The definition of an algebraic data type."""

    header: GlobalTypeVar
    """Its name."""
    type_vars: tuple[TypeVar, ...]
    """Its type parameters."""
    constructors: tuple[Constructor, ...]
    """The ways to make a value of it."""

    def __init__(
        self, header: GlobalTypeVar, type_vars: Iterable[TypeVar], constructors: Iterable[Constructor]
    ) -> None:
        """Take the constructors, which get their tags."""
        set_field(self, "header", header)
        set_field(self, "type_vars", tuple(type_vars))
        set_field(self, "constructors", tuple(constructors))
        # Never 0 in the upper bits, and never negative in 32.
        prefix = crc32(header.name_hint.encode()) % 0x7FFF + 1
        for place, one in enumerate(self.constructors):
            set_field(one, "tag", prefix << 16 | place)


class Pattern:
    """The base of what a clause matches against."""

    __slots__ = ()

    @property
    def bound(self) -> tuple[Var, ...]:
        """The variables that a match binds, from left to right."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class PatternWildcard(Pattern):
    """Fits every value."""


@dataclass(frozen=True, slots=True, eq=False)
class PatternVar(Pattern):
    """Fits every value, and binds it."""

    var: Var
    """The variable."""

    @property
    def bound(self) -> tuple[Var, ...]:
        """The variable."""
        return (self.var,)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class PatternConstructor(Pattern):
    """Fits what a constructor made, if the arguments fit as well."""

    constructor: Constructor
    """The constructor."""
    patterns: tuple[Pattern, ...]
    """What the arguments must look like."""

    def __init__(self, constructor: Constructor, patterns: Iterable[Pattern] | None = None) -> None:
        set_field(self, "constructor", constructor)
        set_field(self, "patterns", tuple(patterns or ()))

    @property
    def bound(self) -> tuple[Var, ...]:
        """The variables of the arguments' patterns."""
        return tuple(var for one in self.patterns for var in one.bound)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class PatternTuple(Pattern):
    """Fits a tuple whose fields fit."""

    patterns: tuple[Pattern, ...]
    """What the fields must look like."""

    def __init__(self, patterns: Iterable[Pattern] | None = None) -> None:
        set_field(self, "patterns", tuple(patterns or ()))

    @property
    def bound(self) -> tuple[Var, ...]:
        """The variables of the fields' patterns."""
        return tuple(var for one in self.patterns for var in one.bound)


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """A case of a match."""

    lhs: Pattern
    """What the value must look like."""
    rhs: Expr
    """The value of the match then, with the variables of `lhs` bound."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Match(Expr):
    """The first clause whose pattern fits a value."""

    data: Expr
    """The value."""
    clauses: tuple[Clause, ...]
    """The cases, tried in order."""
    complete: bool
    """Whether some clause must fit; `match?` in the text if not."""

    def __init__(
        self,
        data: Expr,
        clauses: Iterable[Clause],
        complete: bool = True,
        *,
        span: Span | None = None,
        checked_type_: Type | None = None,
    ) -> None:
        set_field(self, "span", span)
        set_field(self, "checked_type_", checked_type_)
        set_field(self, "data", data)
        set_field(self, "clauses", tuple(clauses))
        set_field(self, "complete", complete)

    @property
    def children(self) -> tuple[Expr, ...]:
        """The value, then of each clause the variables that it binds and its result."""
        return (self.data, *(one for clause in self.clauses for one in (*clause.lhs.bound, clause.rhs)))
