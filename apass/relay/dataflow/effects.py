"""Effects of expressions, for passes that drop, move or merge expressions."""

from enum import IntEnum
from functools import cached_property

from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Call, Expr, GlobalVar, Let, Op, RefCreate, RefRead, RefWrite, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order

__all__ = ["Effect", "Effects"]


class Effect(IntEnum):
    """Effects of an expression; a higher effect includes the lower ones."""

    NONE = 0
    """No effects: the expression may be dropped, moved, copied and merged."""
    STATE = 1
    """It creates or reads a cell: it may be dropped, but not moved, copied or merged."""
    WRITE = 2
    """It may write to a cell or call a stateful operator: it must stay where it is."""


class Effects:
    """The effects of expressions within a root, and of new ones built from them.

    Failure and non-termination are not effects. A call has the effects of its callee. The callee is known in three
    cases:

    - a function expression
    - a function that a Let binds to a variable
    - a global function that calls no other

    A call of anything else may write.

    >>> from apass.relay.ir.expr import const
    >>> cell = RefCreate(const(1))
    >>> effects = Effects(cell)
    >>> effects.of(cell), effects.of(RefWrite(cell, const(2)))
    (<Effect.STATE: 1>, <Effect.WRITE: 2>)
    """

    def __init__(self, root: Expr, mod: IRModule | None = None, own_name: str = "") -> None:
        self._root = root
        self._mod = mod
        self._own_name = own_name
        self._levels: dict[Expr, Effect] = {}
        self._globals: dict[str, Effect] = {}
        self._is_guessing = False

    def of(self, expr: Expr) -> Effect:
        """Return the effect of evaluating an expression."""
        if not self._levels:  # calls of Let-bound functions need the effects of the whole root
            self._find(self._root)
        if expr not in self._levels:
            self._find(expr)
        return self._levels[expr]

    @cached_property
    def _bindings(self) -> dict[Var, Expr]:
        return {node.var: node.value for node in post_order(self._root) if isinstance(node, Let)}

    def _find(self, expr: Expr) -> None:
        """Compute the effects of an expression and its descendants.

        A recursive function starts with no effects. The computation repeats until its effects no longer grow.
        """
        levels = self._levels
        order = [node for node in post_order(expr, levels.__contains__) if node not in levels]
        self._is_guessing = False
        changed = True
        while changed:
            changed = False
            for node in order:
                level = self._level(node)
                changed |= levels.get(node) is not level
                levels[node] = level
            changed &= self._is_guessing

    def _level(self, node: Expr) -> Effect:
        if isinstance(node, Function):
            return Effect.NONE
        effect = Effect.NONE
        if isinstance(node, Call):
            effect = self._of_call(node.op)
        elif isinstance(node, RefWrite):
            effect = Effect.WRITE
        elif isinstance(node, RefCreate | RefRead):
            effect = Effect.STATE
        return max((effect, *map(self._levels.__getitem__, node.children)))

    def _of_call(self, callee: Expr) -> Effect:
        """Return the effect of a call, apart from that of its arguments."""
        seen: set[Expr] = set()
        while isinstance(callee, Var) and callee in self._bindings and callee not in seen:
            seen.add(callee)
            callee = self._bindings[callee]
        if isinstance(callee, Op):
            return Effect.WRITE if callee.get_attr("TOpIsStateful") else Effect.NONE
        if isinstance(callee, Function):
            level = self._levels.get(callee.body)
            if level is None:
                self._is_guessing = True
                return Effect.NONE
            return level
        if isinstance(callee, GlobalVar):
            return self._of_global(callee.name_hint)
        return Effect.NONE if isinstance(callee, Constructor) else Effect.WRITE

    def _of_global(self, name: str) -> Effect:
        if name == self._own_name:
            return Effect.NONE  # a recursive call has the effects of the rest of the function
        if self._mod is None or name not in self._mod:
            return Effect.WRITE
        if name not in self._globals:
            func = self._mod[name]
            self._globals[name] = Effects(func, own_name=name).of(func.body)
        return self._globals[name]
