"""`Places`: where the calls of a function stand, and whether several can be evaluated as one; for CombineParallel."""

from collections.abc import Sequence

from apass.relay.adt import Match
from apass.relay.dataflow.scopes import Scope, evaluation_order, home_scopes
from apass.relay.expr import Call, Constant, Expr, If, Let, Op
from apass.relay.function import Function

__all__ = ["Places"]

_ATOMS = (Constant, Op)


class Places:
    """Where the calls of a function stand: in which of its scopes, and before which others.

    A scope is the body of a function, a branch of an If or a clause of a Match.
    """

    def __init__(self, func: Function, order: Sequence[Expr]) -> None:
        """Look at a function, whose nodes are given in post order."""
        self._numbers = {node: number for number, node in enumerate(order)}
        events = [one for one in evaluation_order(func, _ATOMS) if isinstance(one, Expr)]
        self._homes = home_scopes(Scope(), events, _ATOMS, _open)
        bound = {node.var for node in order if isinstance(node, Let)}
        self._on_lets: set[Expr] = set()
        """What depends on a variable of a Let, which is not there everywhere in a scope."""
        for node in order:
            if node in bound or not self._on_lets.isdisjoint(node.children):
                self._on_lets.add(node)

    def may_join(self, calls: Sequence[Call], call: Call, place: int = 0) -> bool:
        """Tell whether `call` can be evaluated together with calls that come before it.

        They must be evaluated in one scope, and what each takes beside its operand at `place` must be there for all: it
        depends on none of them, nor on variables of Lets.
        """
        if not calls:
            return self._is_free(call, place)
        if self._homes[calls[0]] is not self._homes[call]:
            return False
        others = [arg for at, arg in enumerate(call.args) if at != place]
        return all(self._is_free(one, place) for one in (calls[0], call)) and not self._reaches(others, calls)

    def _is_free(self, call: Call, place: int) -> bool:
        return not any(arg in self._on_lets for at, arg in enumerate(call.args) if at != place)

    def _reaches(self, exprs: Sequence[Expr], calls: Sequence[Call]) -> bool:
        """Tell whether one of the expressions depends on one of the calls."""
        first = min(self._numbers[one] for one in calls)
        seen: set[Expr] = set()
        stack = list(exprs)
        while stack:
            node = stack.pop()
            if node in seen or self._numbers[node] < first:
                continue  # what comes before all of the calls depends on none
            if node in calls:
                return True
            seen.add(node)
            stack += node.children
        return False


def _open(scope: Scope, node: Expr, part: int) -> Scope | None:
    return Scope(scope) if isinstance(node, If | Function | Match) else None
