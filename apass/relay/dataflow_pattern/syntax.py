"""Functions that create patterns, and `match` and `partition`, under TVM's names."""

import warnings
from collections.abc import Callable, Iterable, Mapping

from apass.relay.dataflow_pattern.matcher import Matcher
from apass.relay.dataflow_pattern.nodes import (
    FunctionPattern,
    IfPattern,
    LetPattern,
    TupleGetItemPattern,
    TuplePattern,
)
from apass.relay.dataflow_pattern.partitioner import partition_matches
from apass.relay.dataflow_pattern.pattern import (
    AttrPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    ShapePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from apass.relay.ir.expr import Expr, Op
from apass.relay.ir.ty import Dim, Type

__all__ = [
    "dominates",
    "has_attr",
    "has_dtype",
    "has_shape",
    "has_type",
    "is_constant",
    "is_expr",
    "is_if",
    "is_let",
    "is_op",
    "is_tuple",
    "is_tuple_get_item",
    "is_var",
    "match",
    "partition",
    "wildcard",
]


def wildcard() -> WildcardPattern:
    """Return a pattern that matches every expression."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """Return a pattern of variables, optionally of one name."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """Return a pattern of constants."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """Return a pattern of expressions that are structurally equal to `expr`."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """Return a pattern of an operator.

    Raises:
        UnknownOpError: if there is no operator of that name; the message suggests one.

    """
    return ExprPattern(Op.get(op_name))


def is_tuple(fields: Iterable[DFPattern] | None) -> TuplePattern:
    """Return a pattern of tuples with matching fields; None matches any fields."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Return a pattern of a field of a matching tuple; without an index, of any field."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """Return a pattern of an If whose parts match."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """Return a pattern of a Let whose parts match."""
    return LetPattern(var, value, body)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Return a pattern of matches of `pattern`, or of anything, that are of a type."""
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Return a pattern of matches of `pattern`, or of anything, with an element type."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Iterable[Dim], pattern: DFPattern | None = None) -> ShapePattern:
    """Return a pattern of matches of `pattern`, or of anything, that have a shape."""
    return ShapePattern(wildcard() if pattern is None else pattern, shape)


def has_attr(attrs: Mapping[str, object], pattern: DFPattern | None = None) -> AttrPattern:
    """Return a pattern of matches of `pattern`, or of anything, that have attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Return a pattern of a child that dominates a parent.

    All paths from the operands of the child lead to the parent, over nodes that match `path`. All users of the parent
    lead to the child, so the two can be replaced together with the nodes between them.
    """
    return DominatorPattern(parent, path, child)


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Return whether a pattern matches an expression.

    >>> from apass.relay.ir.expr import const
    >>> from apass.relay.op.elementwise import arithmetic
    >>> match(wildcard() + is_constant(), const(1) + const(2))
    True
    """
    return Matcher(expr).match(pattern, expr)


def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, object] | None = None,
    check: Callable[[Expr], bool] = lambda _: True,
) -> Expr:
    """Return the expression with each match of a pattern moved into a function.

    Calls of the functions replace the matches. The inputs of a match become parameters, and constants that the pattern
    names are copied into the function. Its attribute `PartitionedFromPattern` lists the nodes of the match. Matches are
    chosen as in `rewrite`.

    Parameters:
        pattern: the pattern. A FunctionPattern is ignored with a warning, as nothing would call the function.
        expr: the expression.
        attrs: further attributes of the functions.
        check: returns whether to take a match.

    """
    if isinstance(pattern, FunctionPattern):
        warnings.warn("a function matched by a FunctionPattern has no caller; partition ignores it", stacklevel=2)

        return expr
    return partition_matches(pattern, expr, attrs or {}, check)
