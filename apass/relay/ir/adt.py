"""Algebraic data types: definitions, constructors, patterns and `Match`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from zlib import crc32

from apass.core.diagnostics import Span
from apass.relay.ir.base import Node
from apass.relay.ir.expr import Expr, Var, set_field
from apass.relay.ir.json_format import Reduced, reduced
from apass.relay.ir.text_format import pretty_print
from apass.relay.ir.ty import GlobalTypeVar, Type, TypeVar

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
    """A constructor of an algebraic data type. Its values store the arguments."""

    name_hint: str
    """The name."""
    inputs: tuple[Type, ...]
    """The types of the arguments."""
    belong_to: GlobalTypeVar
    """The data type."""
    tag: int
    """Number that identifies the constructor in a module.

    The lower 16 bits are the index among the constructors of the data type. The upper bits are a hash of the data
    type's name. The tag is -1 until a `TypeData` contains the constructor.

    >>> from apass.relay.ir.ty import GlobalTypeVar
    >>> box = GlobalTypeVar("Box")
    >>> data = TypeData(box, [], [Constructor("Empty", [], box), Constructor("Full", [box], box)])
    >>> [constructor.tag - data.constructors[0].tag for constructor in data.constructors]
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
class TypeData(Node):
    """The definition of an algebraic data type."""

    header: GlobalTypeVar
    """The name of the data type."""
    type_vars: tuple[TypeVar, ...]
    """The type parameters."""
    constructors: tuple[Constructor, ...]
    """The constructors."""

    def __init__(
        self, header: GlobalTypeVar, type_vars: Iterable[TypeVar], constructors: Iterable[Constructor]
    ) -> None:
        """Set the fields, and assign a tag to each constructor."""
        set_field(self, "header", header)
        set_field(self, "type_vars", tuple(type_vars))
        set_field(self, "constructors", tuple(constructors))
        # 1 to 0x7FFF: a tag is never 0, and fits a signed 32-bit integer.
        prefix = crc32(header.name_hint.encode()) % 0x7FFF + 1
        for index, constructor in enumerate(self.constructors):
            set_field(constructor, "tag", prefix << 16 | index)


class Pattern(Node):
    """Base of all patterns."""

    __slots__ = ()

    def parts(self) -> "Iterator[Pattern]":
        """Iterate over the pattern and its parts, in pre-order."""
        stack: list[Pattern] = [self]
        while stack:
            part = stack.pop()
            yield part
            if isinstance(part, PatternConstructor | PatternTuple):
                stack += reversed(part.patterns)

    @property
    def bound(self) -> tuple[Var, ...]:
        """The variables that a match binds, from left to right."""
        return tuple([part.var for part in self.parts() if isinstance(part, PatternVar)])

    def __str__(self) -> str:
        """Return Relay's text."""
        return pretty_print(self)

    def __repr__(self) -> str:
        """Return the kind of the pattern, without its parts."""
        return f"<relay.{type(self).__name__}>"

    def __reduce__(self) -> Reduced:
        """Return the JSON of the pattern, which has no depth limit."""
        return reduced(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternWildcard(Pattern):
    """Pattern that matches every value."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PatternVar(Pattern):
    """Pattern that matches every value and binds it to a variable."""

    var: Var
    """The variable."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class PatternConstructor(Pattern):
    """Pattern that matches the values of a constructor whose arguments match."""

    constructor: Constructor
    """The constructor."""
    patterns: tuple[Pattern, ...]
    """The patterns of the arguments."""

    def __init__(self, constructor: Constructor, patterns: Iterable[Pattern] | None = None) -> None:
        set_field(self, "constructor", constructor)
        set_field(self, "patterns", tuple(patterns or ()))


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class PatternTuple(Pattern):
    """Pattern that matches a tuple whose fields match."""

    patterns: tuple[Pattern, ...]
    """The patterns of the fields."""

    def __init__(self, patterns: Iterable[Pattern] | None = None) -> None:
        set_field(self, "patterns", tuple(patterns or ()))


@dataclass(frozen=True, slots=True, eq=False)
class Clause(Node):
    """A case of a match."""

    lhs: Pattern
    """The pattern."""
    rhs: Expr
    """The result if the pattern matches. The variables of `lhs` are bound in it."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, init=False)
class Match(Expr):
    """A match expression: evaluates the first clause whose pattern matches a value."""

    data: Expr
    """The matched value."""
    clauses: tuple[Clause, ...]
    """The cases, tried in order."""
    complete: bool
    """Whether the clauses must cover all values. A match that need not is `match?` in the text."""

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
        """The matched value, then the bound variables and the result of each clause."""
        return (self.data, *(expr for clause in self.clauses for expr in (*clause.lhs.bound, clause.rhs)))
