"""`partition_matches`: the matches of a pattern made into functions of their own, and called."""

from collections.abc import Callable, Mapping

from apass.relay.adt import Match
from apass.relay.dataflow_pattern.grouper import PARTITIONED_FROM_PATTERN, Group, find_groups
from apass.relay.dataflow_pattern.matcher import Pattern
from apass.relay.expr import Call, Expr, If, Let, Op, Tuple, TupleGetItem
from apass.relay.expr_functor import ExprMutator
from apass.relay.function import Function

__all__ = ["partition_matches"]


def partition_matches(pattern: Pattern, expr: Expr, attrs: Mapping[str, object], check: Callable[[Expr], bool]) -> Expr:
    """Return an expression with each match of a pattern in a function of its own; see `partition`."""
    groups = {root: group for root, group in find_groups(pattern, expr).items() if _has_work(group)}
    return _Partitioner(groups, attrs, check).visit(expr) if groups else expr


def _has_work(group: Group) -> bool:
    """Tell whether a match is more than where it ends, as that of a wildcard, or an operator that nothing calls."""
    return group.root not in group.args and not isinstance(group.root, Op)


class _Partitioner(ExprMutator):
    """Puts calls of new functions in the places of matches."""

    def __init__(
        self, groups: Mapping[Expr, Group], attrs: Mapping[str, object], check: Callable[[Expr], bool]
    ) -> None:
        super().__init__()
        self._groups = groups
        self._attrs = attrs
        self._check = check

    def visit(self, expr: Expr) -> Expr:
        """Return the call that takes the place of a match, if the check allows it."""
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        post = super().visit(expr)
        group = self._groups.get(expr)
        if group is not None and self._check(expr):
            post = memo[expr] = self._call(group)
        return post

    def _call(self, group: Group) -> Call:
        extractor = ExprMutator()
        extractor.memo_map.update(group.params_by_arg())
        name = "".join(map(_kind, group.nodes()))
        attrs = {PARTITIONED_FROM_PATTERN: name, **self._attrs}
        return Call(Function(group.params, extractor.visit(group.root), attrs=attrs), self.mutate_all(group.args))


def _kind(expr: Expr) -> str:
    """Return what a node adds to the name of a match."""
    if isinstance(expr, Call):
        return f"{expr.op.name}_" if isinstance(expr.op, Op) else "Call_"
    if isinstance(expr, TupleGetItem):
        return f"TupleGetItem{expr.index}_"
    if isinstance(expr, Function):
        return "Function"
    return f"{type(expr).__name__}_" if isinstance(expr, Tuple | Let | If | Match) else ""
