"""`partition_matches`: move matches of a pattern into functions, and call these."""

from collections.abc import Callable, Mapping

from apass.relay.dataflow_pattern.grouper import PARTITIONED_FROM_PATTERN, Group, find_groups
from apass.relay.dataflow_pattern.matcher import Pattern
from apass.relay.ir.adt import Match
from apass.relay.ir.expr import Call, Expr, If, Let, Op, Tuple, TupleGetItem
from apass.relay.ir.function import Function
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["partition_matches"]


def partition_matches(pattern: Pattern, expr: Expr, attrs: Mapping[str, object], check: Callable[[Expr], bool]) -> Expr:
    """Return the expression with each match in a function; see `partition`."""
    groups = {root: group for root, group in find_groups(pattern, expr).items() if _has_work(group)}
    return _Partitioner(groups, attrs, check).visit(expr) if groups else expr


def _has_work(group: Group) -> bool:
    """Return whether a match contains a node worth a function.

    A match of a wildcard is only an input, and an operator that is not called computes nothing.
    """
    return group.root not in group.args and not isinstance(group.root, Op)


class _Partitioner(ExprMutator):
    """Replaces matches by calls of new functions."""

    def __init__(
        self, groups: Mapping[Expr, Group], attrs: Mapping[str, object], check: Callable[[Expr], bool]
    ) -> None:
        super().__init__()
        self._groups = groups
        self._attrs = attrs
        self._check = check

    def visit(self, expr: Expr) -> Expr:
        """Return the rewritten node; for a match that the check accepts, the call."""
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        post = super().visit(expr)
        group = self._groups.get(expr)
        if group is not None and self._check(expr):
            extractor = ExprMutator()
            extractor.memo_map.update(group.params_by_arg())
            name = "".join(map(_kind, group.nodes()))
            attrs = {PARTITIONED_FROM_PATTERN: name, **self._attrs}
            post = memo[expr] = Call(
                Function(group.params, extractor.visit(group.root), attrs=attrs), self.mutate_all(group.args)
            )
        return post


def _kind(expr: Expr) -> str:
    """Return the part of the function's name that a node contributes."""
    if isinstance(expr, Call):
        return f"{expr.op.name}_" if isinstance(expr.op, Op) else "Call_"
    if isinstance(expr, TupleGetItem):
        return f"TupleGetItem{expr.index}_"
    if isinstance(expr, Function):
        return "Function"
    return f"{type(expr).__name__}_" if isinstance(expr, Tuple | Let | If | Match) else ""
