"""Where in a program each expression is evaluated: its home scope, and the order of all that are evaluated.

A graph means what its A-normal form means: an expression is evaluated once, in the innermost scope that contains every
use of it, just before what first needs it there. A scope is the body of a function, a branch of an If or a clause of a
Match, and, where it is asked for, a Let. For the evaluator and for the passes that make sharing explicit.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, TypeVar, final

from apass.relay.adt import Match
from apass.relay.expr import Call, Expr, If, Let
from apass.relay.function import Function

__all__ = ["Enter", "Event", "Scope", "evaluation_order", "home_scopes", "scope_parts"]


class Scope:
    """A scope among others; the outermost one has no parent."""

    __slots__ = ("depth", "jump", "parent")

    parent: Self | None
    """The scope around it."""
    depth: int
    """How many scopes are around it."""
    jump: Self
    """A scope some way out, so that the way to any scope around this one takes logarithmically many steps."""

    def __init__(self, parent: Self | None = None) -> None:
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.jump = self if parent is None else _far(parent)

    def is_in(self, outer: Self) -> bool:
        """Tell whether this scope is `outer`, or within it."""
        scope = self
        while scope.depth > outer.depth:
            scope = scope.jump if scope.jump.depth >= outer.depth else scope.parent or outer
        return scope is outer

    def within(self, outer: Self) -> Self:
        """Return this scope, or the one around it, that lies directly in `outer`, which is around this one."""
        scope = self
        while scope.parent is not outer:
            scope = scope.jump if scope.jump.depth > outer.depth else scope.parent or outer
        return scope


ScopeT = TypeVar("ScopeT", bound=Scope)


def _far(parent: ScopeT) -> ScopeT:
    over = parent.jump
    return over.jump if parent.depth - over.depth == over.depth - over.jump.depth else parent


def _common(one: ScopeT, other: ScopeT) -> ScopeT:
    """Return the innermost scope that is, or is around, both."""
    a, b = (one, other) if one.depth >= other.depth else (other, one)
    while a.depth > b.depth:
        a = a.jump if a.jump.depth >= b.depth else a.parent or b
    while a is not b:
        a, b = (a.jump, b.jump) if a.jump is not b.jump else (a.parent or b, b.parent or a)
    return a


@final
@dataclass(frozen=True, slots=True, eq=False)
class Enter:
    """Tells that the variables of a binder come into being: all that needs them follows, then the binder itself."""

    binder: Function | Let | Match
    """What binds them."""
    part: int = 0
    """The clause of a Match. Of a Let, 0 stands before its value and 1 after it."""


_SCOPED: Final = frozenset({Let, If, Function, Match})

Event: TypeAlias = Expr | Enter
"""What `evaluation_order` goes over."""


def evaluation_order(
    root: Expr, atoms: Collection[type[Expr]], is_opaque: Callable[[Function], bool] = lambda _: False
) -> list[Event]:
    """Return `root` and all below it but the atoms, each once, in the order in which they are evaluated.

    What is below a node comes before it, from left to right; of a call, the arguments before what is called. `Enter`
    stands where variables come into being. Nothing below a function that `is_opaque` tells of is gone over.
    """
    order: list[Event] = []
    seen: set[Expr] = set()
    stack: list[Event | None] = [root]
    while stack:
        top = stack.pop()
        if top is None:
            done = stack.pop()
            assert done is not None, "a node lies below the mark that all below it is done"
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
        clauses = (part for place, one in enumerate(node.clauses) for part in (Enter(node, place), one.rhs))
        return (node.data, *clauses)
    return node.children


def home_scopes(
    root: ScopeT,
    order: Sequence[Event],
    atoms: Collection[type[Expr]],
    open_scope: Callable[[ScopeT, Expr, int], ScopeT | None],
) -> dict[Expr, ScopeT]:
    """Return the home scope of each expression in an `evaluation_order`; the last one's is `root`.

    `open_scope(scope, node, part)` makes the scope of a part of a node that lives in `scope`: of the body of a Function
    or a Let, of the branches of an If (0 and 1), of a clause of a Match; None if the part shares the node's.
    """
    homes: dict[Expr, ScopeT] = {}
    if order:
        last = order[-1]
        assert isinstance(last, Expr), "an order ends with the expression that it is of"
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
    """Return the parts of a node with the expressions in each; part -1 is in the scope of the node itself."""
    if isinstance(node, If):
        return ((-1, (node.cond,)), (0, (node.true_branch,)), (1, (node.false_branch,)))
    if isinstance(node, Function):
        return ((0, (node.body,)),)
    if isinstance(node, Let):
        return ((0, (node.value, node.body)),)
    if isinstance(node, Match):
        return ((-1, (node.data,)), *((place, (one.rhs,)) for place, one in enumerate(node.clauses)))
    return ((-1, node.children),)
