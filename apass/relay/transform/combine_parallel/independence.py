"""Checks whether several calls can be evaluated as one, for CombineParallel."""

from collections.abc import Sequence

from apass.relay.dataflow.scopes import HomeScope, evaluation_order, home_scopes
from apass.relay.ir.adt import Match
from apass.relay.ir.expr import Call, Constant, Expr, If, Let, Op
from apass.relay.ir.function import Function

__all__ = ["IndependenceChecker"]

_ATOMS = (Constant, Op)


class IndependenceChecker:
    """Returns whether calls of a function can be evaluated together.

    For this it maps each call to its scope, and to its position in post order. A scope is the body of a function, a
    branch of an If or a clause of a Match.
    """

    def __init__(self, func: Function, order: Sequence[Expr]) -> None:
        """Analyse a function, given its nodes in post order."""
        self._positions = {node: position for position, node in enumerate(order)}
        events = [event for event in evaluation_order(func, _ATOMS) if isinstance(event, Expr)]
        self._homes = home_scopes(HomeScope(), events, _ATOMS, _open)
        bound = {node.var for node in order if isinstance(node, Let)}
        self._on_lets: set[Expr] = set()
        """Nodes that depend on a variable of a Let, which is bound in a part of its scope only."""
        for node in order:
            if node in bound or not self._on_lets.isdisjoint(node.children):
                self._on_lets.add(node)

    def may_join(self, calls: Sequence[Call], call: Call, index: int = 0) -> bool:
        """Return whether `call` can be evaluated together with earlier `calls`.

        All must be evaluated in one scope. `index` is the operand that they share. The other operands must be available
        to all calls: they must not depend on any of the calls, nor on variables of Lets.
        """
        if not calls:
            return self._is_free(call, index)
        if self._homes[calls[0]] is not self._homes[call]:
            return False
        others = [arg for position, arg in enumerate(call.args) if position != index]
        return all(self._is_free(node, index) for node in (calls[0], call)) and not self._reaches(others, calls)

    def _is_free(self, call: Call, index: int) -> bool:
        return not any(arg in self._on_lets for position, arg in enumerate(call.args) if position != index)

    def _reaches(self, exprs: Sequence[Expr], calls: Sequence[Call]) -> bool:
        """Return whether one of the expressions depends on one of the calls."""
        first = min(self._positions[call] for call in calls)
        seen: set[Expr] = set()
        stack = list(exprs)
        while stack:
            node = stack.pop()
            if node in seen or self._positions[node] < first:
                continue  # a node before all calls in post order depends on none of them
            if node in calls:
                return True
            seen.add(node)
            stack += node.children
        return False


def _open(scope: HomeScope, node: Expr, part: int) -> HomeScope | None:
    return HomeScope(scope) if isinstance(node, If | Function | Match) else None
