"""Home scopes of expressions, and the order of evaluation.

A graph has the meaning of its A-normal form. An expression is evaluated once, in the innermost scope that contains all
of its uses, just before its first use there. A scope is the body of a function, a branch of an If or a clause of a
Match. If requested, a Let is a scope as well. This is for the evaluator and for the passes that make sharing explicit.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, TypeVar, final

from apass.relay.ir.adt import Match
from apass.relay.ir.expr import Call, Expr, If, Let
from apass.relay.ir.function import Function

__all__ = ["Enter", "Event", "HomeScope", "evaluation_order", "home_scopes", "scope_parts"]


class HomeScope:
    """A scope in a tree of scopes; the outermost scope has no parent."""

    __slots__ = ("depth", "jump", "parent")

    parent: Self | None
    """The enclosing scope."""
    depth: int
    """The number of enclosing scopes."""
    jump: Self
    """A farther enclosing scope, so that any enclosing scope is reached in logarithmic time."""

    def __init__(self, parent: Self | None = None) -> None:
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.jump = self if parent is None else _far(parent)

    def is_in(self, outer: Self) -> bool:
        """Return whether this scope is `outer`, or is within it."""
        scope = self
        while scope.depth > outer.depth:
            scope = scope.jump if scope.jump.depth >= outer.depth else scope.parent or outer
        return scope is outer

    def within(self, outer: Self) -> Self:
        """Return the scope directly in `outer` that is, or contains, this scope.

        `outer` must enclose this scope.
        """
        scope = self
        while scope.parent is not outer:
            scope = scope.jump if scope.jump.depth > outer.depth else scope.parent or outer
        return scope


ScopeT = TypeVar("ScopeT", bound=HomeScope)


def _far(parent: ScopeT) -> ScopeT:
    over = parent.jump
    return over.jump if parent.depth - over.depth == over.depth - over.jump.depth else parent


def _common(left: ScopeT, right: ScopeT) -> ScopeT:
    """Return the innermost scope that contains both."""
    a, b = (left, right) if left.depth >= right.depth else (right, left)
    while a.depth > b.depth:
        a = a.jump if a.jump.depth >= b.depth else a.parent or b
    while a is not b:
        a, b = (a.jump, b.jump) if a.jump is not b.jump else (a.parent or b, b.parent or a)
    return a


@final
@dataclass(frozen=True, slots=True, eq=False)
class Enter:
    """Marks the point where the variables of a binder are bound.

    The expressions that use them follow, then the binder itself.
    """

    binder: Function | Let | Match
    """The binder."""
    part: int = 0
    """The clause of a Match. For a Let, 0 is before its value and 1 is after it."""


_SCOPED: Final = frozenset({Let, If, Function, Match})

Event: TypeAlias = Expr | Enter
"""An element of an `evaluation_order`."""


def evaluation_order(
    root: Expr, atoms: Collection[type[Expr]], is_opaque: Callable[[Function], bool] = lambda _: False
) -> list[Event]:
    """Return `root` and its descendants, except atoms, in evaluation order, each once.

    The children of a node come before it, from left to right. In a call, the arguments come before the callee. `Enter`
    marks where variables are bound. Functions for which `is_opaque` is true are not entered.
    """
    order: list[Event] = []
    seen: set[Expr] = set()
    # None marks that the next element has been expanded.
    stack: list[Event | None] = [root]
    while stack:
        top = stack.pop()
        if top is None:
            done = stack.pop()
            assert done is not None, "the mark is above an expanded node"
            order.append(done)
        elif type(top) is Enter:
            order.append(top)
        elif type(top) not in atoms and isinstance(top, Expr) and top not in seen:
            seen.add(top)
            stack += (top, None)
            if type(top) is Call:
                stack += (top.op, *top.args[::-1])
            elif not (isinstance(top, Function) and is_opaque(top)):
                stack += reversed(_parts(top))
    return order


def _parts(node: Expr) -> Sequence[Event]:
    if isinstance(node, Let):
        return (Enter(node, 0), node.value, Enter(node, 1), node.body)
    if isinstance(node, Function):
        return (Enter(node), node.body)
    if isinstance(node, Match):
        clauses = (part for index, clause in enumerate(node.clauses) for part in (Enter(node, index), clause.rhs))
        return (node.data, *clauses)
    return node.children


def home_scopes(
    root: ScopeT,
    order: Sequence[Event],
    atoms: Collection[type[Expr]],
    open_scope: Callable[[ScopeT, Expr, int], ScopeT | None],
) -> dict[Expr, ScopeT]:
    """Return the home scope of each expression in an `evaluation_order`.

    The scope of the last expression is `root`. `open_scope(scope, node, part)` returns the scope of a part of a node
    whose home is `scope`, or None if the part shares that scope. Parts are the body of a Function or a Let, the
    branches of an If (0 and 1), and the clauses of a Match.
    """
    homes: dict[Expr, ScopeT] = {}
    if order:
        last = order[-1]
        assert isinstance(last, Expr), "an evaluation order ends with its root"
        homes[last] = root
    for node in reversed(order):
        if not isinstance(node, Expr):
            continue
        scope = homes[node]
        for part, children in scope_parts(node) if type(node) in _SCOPED else ((-1, node.children),):
            inner = scope if part < 0 else open_scope(scope, node, part) or scope
            for child in children:
                if type(child) not in atoms and homes.setdefault(child, inner) is not inner:
                    homes[child] = _common(homes[child], inner)
    return homes


def scope_parts(node: Expr) -> Iterable[tuple[int, Iterable[Expr]]]:
    """Return the parts of a node, each with its expressions.

    Part -1 is in the scope of the node itself.
    """
    if isinstance(node, If):
        return ((-1, (node.cond,)), (0, (node.true_branch,)), (1, (node.false_branch,)))
    if isinstance(node, Function):
        return ((0, (node.body,)),)
    if isinstance(node, Let):
        return ((0, (node.value, node.body)),)
    if isinstance(node, Match):
        clauses = ((index, (clause.rhs,)) for index, clause in enumerate(node.clauses))
        return ((-1, (node.data,)), *clauses)

    return ((-1, node.children),)
