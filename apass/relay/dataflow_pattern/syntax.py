"""The functions that make patterns, and `match` and `partition`: TVM's names."""

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
from apass.relay.expr import Expr, Op
from apass.relay.ty import Dim, Type

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
    """Return a pattern that matches everything."""
    return WildcardPattern()


def is_var(name: str = "") -> VarPattern:
    """Return a pattern for variables; for those of a name, if one is given."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """Return a pattern for constants."""
    return ConstantPattern()


def is_expr(expr: Expr) -> ExprPattern:
    """Return a pattern for what is structurally equal to an expression."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """Return a pattern for an operator; UnknownOpError, with a suggestion, if there is none of the name."""
    return ExprPattern(Op.get(op_name))


def is_tuple(fields: Iterable[DFPattern] | None) -> TuplePattern:
    """Return a pattern for tuples of such fields; of any, if None is given."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Return a pattern for a field of such a tuple; for any of its fields, without an index."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """Return a pattern for an If of such parts."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """Return a pattern for a Let of such parts."""
    return LetPattern(var, value, body)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """Return a pattern for what `pattern`, or anything, matches, if it is of a type."""
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """Return a pattern for what `pattern`, or anything, matches, if it is a tensor of an element type."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Iterable[Dim], pattern: DFPattern | None = None) -> ShapePattern:
    """Return a pattern for what `pattern`, or anything, matches, if it is a tensor of a shape."""
    return ShapePattern(wildcard() if pattern is None else pattern, shape)


def has_attr(attrs: Mapping[str, object], pattern: DFPattern | None = None) -> AttrPattern:
    """Return a pattern for what `pattern`, or anything, matches, if it has all these attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """Return a pattern for a child all of whose operands lead, over nodes that match `path`, to one parent.

    All that uses the parent leads to the child: so the two, with what is between them, can be taken out as one.
    """
    return DominatorPattern(parent, path, child)


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Tell whether a pattern matches an expression.

    >>> from apass.relay.make import const
    >>> from apass.relay.op import arithmetic
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
    """Return an expression with what a pattern matches in functions of their own, and calls of these.

    Where a match ends, its function has a parameter; constants that the pattern asks for are copied into it. Its
    attribute `PartitionedFromPattern` tells what it is made of. Matches are chosen as `rewrite` does.

    Parameters:
        pattern: what is searched for; a FunctionPattern is not, as nothing would call the function.
        expr: the expression.
        attrs: further attributes of the functions.
        check: is given each match, and tells whether to take it.

    """
    if isinstance(pattern, FunctionPattern):
        warnings.warn("nothing calls a function that a FunctionPattern matches; partition leaves it", stacklevel=2)
        return expr
    return partition_matches(pattern, expr, attrs or {}, check)
