"""What evaluating an expression does besides giving its value; for passes that drop, move or merge expressions."""

from enum import IntEnum
from functools import cached_property

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Expr, GlobalVar, Let, Op, Var
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ref import RefCreate, RefRead, RefWrite

__all__ = ["Effect", "Effects"]


class Effect(IntEnum):
    """How much a pass must leave alone; the greater includes the less."""

    NONE = 0
    """Nothing: it may be dropped, moved, copied and merged."""
    STATE = 1
    """It makes or reads a cell: it may be dropped, but not be moved, copied or merged."""
    WRITE = 2
    """It writes to a cell, calls a stateful operator, or may do so: it stays where it is."""


class Effects:
    """The effects of the expressions below one expression, and of those that a pass makes of them.

    Whether an evaluation ends, or fails, is no effect. A call has the effects of what it calls: a function in place,
    one that a variable is bound to, one of the module that calls no other. Of other functions nothing is known, so a
    call of one may write.

    >>> from apass.relay.make import const
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
        if not self._levels:  # the functions that variables are bound to must be known first
            self._find(self._root)
        if expr not in self._levels:
            self._find(expr)
        return self._levels[expr]

    @cached_property
    def _bindings(self) -> dict[Var, Expr]:
        return {node.var: node.value for node in post_order(self._root) if isinstance(node, Let)}

    def _find(self, expr: Expr) -> None:
        """Find the effects of all below an expression; again while what is guessed of recursive functions grows."""
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
        own = Effect.NONE
        if isinstance(node, Call):
            own = self._of_call(node.op)
        elif isinstance(node, RefWrite):
            own = Effect.WRITE
        elif isinstance(node, RefCreate | RefRead):
            own = Effect.STATE
        return max((own, *map(self._levels.__getitem__, node.children)))

    def _of_call(self, callee: Expr) -> Effect:
        """Return what a call of a function does besides evaluating its arguments."""
        passed: set[Expr] = set()
        while isinstance(callee, Var) and callee in self._bindings and callee not in passed:
            passed.add(callee)
            callee = self._bindings[callee]
        if isinstance(callee, Op):
            return Effect.WRITE if callee.get_attr("TOpIsStateful") else Effect.NONE
        if isinstance(callee, Function):
            return self._of_body(callee)
        if isinstance(callee, GlobalVar):
            return self._of_global(callee.name_hint)
        return Effect.NONE if isinstance(callee, Constructor) else Effect.WRITE

    def _of_body(self, func: Function) -> Effect:
        level = self._levels.get(func.body)
        if level is None:
            self._is_guessing = True
            return Effect.NONE
        return level

    def _of_global(self, name: str) -> Effect:
        if name == self._own_name:
            return Effect.NONE  # a call of itself adds nothing to what the rest of the function does
        if self._mod is None or name not in self._mod:
            return Effect.WRITE
        if name not in self._globals:
            func = self._mod[name]
            self._globals[name] = Effects(func, own_name=name).of(func.body)
        return self._globals[name]
