"""`DFPatternCallback` and `rewrite`: matches of patterns replaced by what a function makes of them."""

from collections.abc import Iterable, Mapping
from typing import Final

from apass.errors import ApassError
from apass.relay.dataflow_pattern.grouper import Group, find_groups
from apass.relay.dataflow_pattern.matcher import NodeMap
from apass.relay.dataflow_pattern.pattern import DFPattern
from apass.relay.expr import Expr
from apass.relay.expr_functor import ExprMutator
from apass.relay.ir.module import IRModule
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_expr

__all__ = ["MAX_REWRITES", "DFPatternCallback", "RewriteLimitError", "rewrite"]

MAX_REWRITES: Final = 100
"""How often an expression may be rewritten before it must stay as it is."""


class RewriteLimitError(ApassError, RuntimeError):
    """Callbacks went on changing an expression: two may undo each other's work, or one matches what it makes."""


class DFPatternCallback:
    """A pattern, and what to put in the place of what it matches; a subclass sets `pattern` and defines `callback`.

    >>> from apass.relay.dataflow_pattern import is_op, wildcard
    >>> from apass.relay.expr import Call, Op, Var
    >>> from apass.relay.op import arithmetic
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
        """Take whether the expression must be typed before it is matched, and whether it is rewritten but once."""
        self.pattern: DFPattern | None = None
        """What is matched."""
        self.require_type = require_type
        """Whether types are inferred before each search."""
        self.rewrite_once = rewrite_once
        """Whether what the callback makes is not searched again."""

    def rewrite(self, expr: Expr) -> Expr:
        """Do as `rewrite(self, expr)`."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: NodeMap) -> Expr:
        """Return what takes the place of a match.

        Parameters:
            pre: the node that the pattern matched.
            post: that node with what is below it rewritten.
            node_map: for each pattern within the pattern the nodes that it matched, rewritten: `node_map[self.x][0]`.

        """
        raise NotImplementedError(f"{type(self).__name__} has no callback; define callback(self, pre, post, node_map)")


def rewrite(
    callbacks: DFPatternCallback | Iterable[DFPatternCallback], expr: Expr, mod: IRModule | None = None
) -> Expr:
    """Return an expression with all that the callbacks' patterns match replaced, again and again until nothing changes.

    Matches that overlap are not replaced together: the one further up goes first. A match whose inner nodes are used
    elsewhere is left alone. The same object comes back if nothing changed, or the expression with types if a callback
    requires these.

    Parameters:
        callbacks: one or several, taken in turn.
        expr: the expression.
        mod: the module whose functions and data types it refers to, for callbacks that require types.

    Raises:
        RewriteLimitError: if the expression has not settled after a hundred rewrites.

    """
    waiting = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    count = 0
    while waiting:
        before = expr
        for one in waiting:
            expr = _rewrite_once(one, expr, mod)
        count += len(waiting)
        waiting = [one for one in waiting if not one.rewrite_once]
        if expr is before or structural_equal(before, expr, map_free_vars=True):
            break
        if count >= MAX_REWRITES and waiting:
            names = ", ".join(type(one).__name__ for one in waiting)
            raise RewriteLimitError(f"the expression still changes after {count} rewrites, by one of {names}")
    return expr


def _rewrite_once(callback: DFPatternCallback, expr: Expr, mod: IRModule | None) -> Expr:
    if not isinstance(callback.pattern, DFPattern):
        raise TypeError(f"{type(callback).__name__}.pattern must be a pattern, not {callback.pattern!r}")
    if callback.require_type:
        expr = infer_expr(expr, mod)
    groups = find_groups(callback.pattern, expr, mod)
    return _Rewriter(callback, groups).visit(expr) if groups else expr


class _Rewriter(ExprMutator):
    """Asks a callback about each match."""

    def __init__(self, callback: DFPatternCallback, groups: Mapping[Expr, Group]) -> None:
        super().__init__()
        self._callback = callback
        self._groups = groups

    def visit(self, expr: Expr) -> Expr:
        """Return what takes the place of a node."""
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        post = super().visit(expr)
        group = self._groups.get(expr)
        if group is not None:
            node_map = {part: [memo.get(one, one) for one in found] for part, found in group.node_map.items()}
            post = memo[expr] = _checked(self._callback, self._callback.callback(expr, post, node_map))
        return post


def _checked(callback: DFPatternCallback, made: object) -> Expr:
    if isinstance(made, Expr):
        return made
    raise TypeError(f"{type(callback).__name__}.callback returned {made!r}; it must return an expression")
