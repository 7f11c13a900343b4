"""Patterns of tuples, tuple fields, Ifs, Lets and functions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apass.relay.dataflow_pattern.fit import Fit, Search
from apass.relay.dataflow_pattern.matcher import Matcher, NodeMap, Pattern
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.ir.expr import Expr, If, Let, Tuple, TupleGetItem, set_field
from apass.relay.ir.function import Function
from apass.relay.ir.post_order import post_order

__all__ = ["FunctionPattern", "IfPattern", "LetPattern", "TupleGetItemPattern", "TuplePattern"]

_Patterns: TypeAlias = tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False, init=False)
class TuplePattern(DFPattern):
    """Matches tuples."""

    fields: tuple[DFPattern, ...] | None
    """The fields; None matches any number of arbitrary fields."""

    def __init__(self, fields: Iterable[DFPattern] | None) -> None:
        set_field(self, "fields", None if fields is None else tuple(fields))

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The fields."""
        return self.fields or ()

    def fits(self, expr: Expr, matcher: Matcher) -> Fit:
        """Return whether the expression is a tuple whose fields match."""
        return isinstance(expr, Tuple) and (self.fields is None or matcher.attempt_all(self.fields, expr.fields))

    def inputs(self, match: Expr) -> Sequence[Expr]:
        """Return the fields if they are arbitrary."""
        if self.fields:
            return ()
        return match.children if self.fields is None else (match,)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class TupleGetItemPattern(DFPattern):
    """Matches a field of a tuple."""

    tuple: DFPattern
    """The tuple."""
    index: int | None
    """The index of the field; None matches any."""

    def __init__(self, tuple_value: DFPattern, index: int | None = None) -> None:
        object.__setattr__(self, "tuple", tuple_value)
        object.__setattr__(self, "index", index)

    @property
    def children(self) -> _Patterns:
        """The tuple."""
        return (self.tuple,)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the expression is that field of a matching tuple."""
        if not isinstance(expr, TupleGetItem) or self.index not in (None, expr.index):
            return False
        return (yield matcher.attempt(self.tuple, expr.tuple_value))


@dataclass(frozen=True, slots=True, eq=False)
class IfPattern(DFPattern):
    """Matches an If."""

    cond: DFPattern
    """The condition."""
    true_branch: DFPattern
    """The branch if the condition is true."""
    false_branch: DFPattern
    """The branch if the condition is false."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The condition and the branches."""
        return (self.cond, self.true_branch, self.false_branch)

    def fits(self, expr: Expr, matcher: Matcher) -> Fit:
        """Return whether the expression is an If whose parts match."""
        return isinstance(expr, If) and matcher.attempt_all(self.children, expr.children)


@dataclass(frozen=True, slots=True, eq=False)
class LetPattern(DFPattern):
    """Matches a Let."""

    var: DFPattern
    """The variable."""
    value: DFPattern
    """The value of the variable."""
    body: DFPattern
    """The expression in which it is bound."""

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The variable, the value and the body."""
        return (self.var, self.value, self.body)

    def fits(self, expr: Expr, matcher: Matcher) -> Fit:
        """Return whether the expression is a Let whose parts match."""
        return isinstance(expr, Let) and matcher.attempt_all(self.children, expr.children)


@dataclass(frozen=True, slots=True, eq=False, init=False)
class FunctionPattern(DFPattern):
    """Matches a function."""

    params: tuple[DFPattern, ...] | None
    """The parameters; None matches any."""
    body: DFPattern
    """The body."""

    def __init__(self, params: Iterable[DFPattern] | None, body: DFPattern) -> None:
        set_field(self, "params", None if params is None else tuple(params))
        set_field(self, "body", body)

    @property
    def children(self) -> tuple[Pattern, ...]:
        """The parameters, then the body."""
        return (*(self.params or ()), self.body)

    def fits(self, expr: Expr, matcher: Matcher) -> Search:
        """Return whether the expression is a function whose parts match."""
        if not isinstance(expr, Function):
            return False
        if self.params is not None and not (yield matcher.attempt_all(self.params, expr.params)):
            return False
        return (yield matcher.attempt(self.body, expr.body))

    def inner(self, node_map: NodeMap) -> Iterator[Expr]:
        """Iterate over all nodes of the function's body."""
        for func in node_map.get(self, ()):
            if isinstance(func, Function):
                yield from post_order(func.body)
