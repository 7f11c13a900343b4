"""`DFPatternCallback` and `rewrite`: replace matches by the result of a function."""

from collections.abc import Iterable, Mapping
from typing import Final

from apass.errors import ApassError
from apass.relay.dataflow_pattern.grouper import Group, find_groups
from apass.relay.dataflow_pattern.matcher import NodeMap
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.ir.expr import Expr
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_expr
from apass.relay.visitors.expr_functor import ExprMutator

__all__ = ["MAX_REWRITES", "DFPatternCallback", "RewriteLimitError", "rewrite"]

MAX_REWRITES: Final = 100
"""Most rewrites of an expression before `rewrite` raises RewriteLimitError."""


class RewriteLimitError(ApassError, RuntimeError):
    """Callbacks kept changing an expression.

    Two callbacks may undo each other's work, or one may match its own results.
    """


class DFPatternCallback:
    """A pattern, and the replacement of its matches.

    A subclass sets `pattern` and defines `callback`.

    >>> from apass.relay.dataflow_pattern import is_op, wildcard
    >>> from apass.relay.expr import Call, Op, Var
    >>> from apass.relay.op.elementwise import arithmetic
    >>> class MulToAdd(DFPatternCallback):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.x = wildcard()
    ...         self.pattern = self.x * self.x
    ...     def callback(self, pre, post, node_map):
    ...         return node_map[self.x][0]
    >>> x = Var("x")
    >>> MulToAdd().rewrite(x * x)
    <relay.Var %x>
    """

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        """Set whether matching requires types, and whether to rewrite only once."""
        self.pattern: DFPattern | None = None
        """The pattern."""
        self.require_type = require_type
        """Whether types are inferred before each search; without it, nodes that a callback created have none."""
        self.rewrite_once = rewrite_once
        """Whether to leave the results of the callback unsearched."""

    def rewrite(self, expr: Expr) -> Expr:
        """Return `rewrite(self, expr)`."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        """Return the replacement of a match.

        Parameters:
            pre: the node that the pattern matched.
            post: that node with its operands rewritten.
            node_map: the rewritten nodes that each part of the pattern matched, as in `node_map[self.x][0]`.

        """
        raise NotImplementedError(f"{type(self).__name__} has no callback; define callback(self, pre, post, node_map)")


def rewrite(
    callbacks: DFPatternCallback | Iterable[DFPatternCallback], expr: Expr, mod: IRModule | None = None
) -> Expr:
    """Return the expression with matches replaced repeatedly until nothing changes.

    If matches overlap, the one nearer to the root is replaced first. A match whose inner nodes have other users is left
    as it is. If nothing changes, the same object is returned, or the typed expression if a callback requires types.

    Parameters:
        callbacks: one or several, applied in order.
        expr: the expression.
        mod: the module of its global functions and data types, for callbacks that require types.

    Raises:
        RewriteLimitError: if the expression still changes after a hundred rewrites.

    """
    active = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    count = 0
    while active:
        before = expr
        for callback in active:
            expr = _rewrite_once(callback, expr, mod)
        count += len(active)
        active = [callback for callback in active if not callback.rewrite_once]
        if expr is before or structural_equal(before, expr, map_free_vars=True):
            break
        if count >= MAX_REWRITES and active:
            names = ", ".join(type(callback).__name__ for callback in active)
            raise RewriteLimitError(f"the expression still changes after {count} rewrites, by one of {names}")
    return expr


def _rewrite_once(callback: DFPatternCallback, expr: Expr, mod: IRModule | None) -> Expr:
    if not isinstance(callback.pattern, DFPattern):
        raise TypeError(f"{type(callback).__name__}.pattern must be a DFPattern, got {callback.pattern!r}")
    if callback.require_type:
        expr = infer_expr(expr, mod)
    groups = find_groups(callback.pattern, expr, mod)
    return _Rewriter(callback, groups).visit(expr) if groups else expr


class _Rewriter(ExprMutator):
    """Replaces each match by the result of the callback."""

    def __init__(self, callback: DFPatternCallback, groups: Mapping[Expr, Group]) -> None:
        super().__init__()
        self._callback = callback
        self._groups = groups

    def visit(self, expr: Expr) -> Expr:
        """Return the replacement of a node."""
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        post = super().visit(expr)
        group = self._groups.get(expr)
        if group is not None:
            node_map = {part: [memo.get(node, node) for node in nodes] for part, nodes in group.node_map.items()}
            post = memo[expr] = _checked(self._callback, self._callback.callback(expr, post, node_map))
        return post


def _checked(callback: DFPatternCallback, result: object) -> Expr:
    if isinstance(result, Expr):
        return result
    raise TypeError(f"{type(callback).__name__}.callback must return an expression, got {result!r}")
