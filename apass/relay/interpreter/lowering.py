"""From a function to code: every expression becomes a step in the block of its home scope; for the machine.

What an expression's value is kept in is a `Slot`; `allocation` gives the slots registers and makes the steps.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self, TypeAlias

from apass.relay.adt import Constructor, Match
from apass.relay.dataflow.scopes import Enter, Event, Scope, evaluation_order, home_scopes
from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Var
from apass.relay.function import Function
from apass.relay.interpreter.instructions import Block, Routine, location
from apass.relay.interpreter.values import Value
from apass.relay.rewrite.renaming import with_unique_binders

__all__ = ["ATOMS", "PINNED", "Code", "CodeScope", "Instruction", "Slot", "lower"]

ATOMS: Final = frozenset({Var, GlobalVar, Constant, Op, Constructor})
"""The kinds of expression that need no step."""

_DIRECT: Final = frozenset({Op, Constructor})
_SCOPED: Final = frozenset({Function, If, Match})

PINNED: Final = 1 << 60
"""The last use of a slot that keeps its register to the end."""

AtomValue: TypeAlias = Callable[[Expr], Value]
"""What gives the value of a constant, an operator, a constructor, a global variable."""


class Slot:
    """The value of one expression in one activation of a function."""

    __slots__ = ("last", "place", "scope")

    def __init__(self, scope: "CodeScope", place: int = -1, last: int = -1) -> None:
        self.scope = scope
        """The scope in which it comes into being."""
        self.place = place
        """Its register; -1 before it has one."""
        self.last = last
        """The number of the last instruction of the scope that needs it."""


class Instruction(Slot):
    """A step to be, and the slot of its value."""

    __slots__ = ("args", "expr", "held")

    def __init__(self, scope: "CodeScope", expr: Expr, args: tuple[Slot, ...]) -> None:
        self.scope = scope  # not by the constructor of Slot: there is one of these for every node
        self.place = self.last = -1
        self.expr = expr
        """The expression."""
        self.args = args
        """What it needs."""
        self.held: tuple[Slot, ...] = ()
        """What the blocks within need of the scope that it is in."""


class CodeScope(Scope):
    """A scope and the code in it."""

    __slots__ = ("block", "bound", "code", "instructions", "opener", "result")

    def __init__(self, code: "Code", parent: Self | None) -> None:
        super().__init__(parent)
        self.code = code
        """The function that it is in."""
        self.instructions: list[Instruction] = []
        """What is done, in order."""
        self.bound: list[Slot] = []
        """What is there from the beginning: the variables of a clause's pattern."""
        self.result: Slot | None = None
        """The value."""
        self.opener: Instruction | None = None
        """What goes on with this scope: the If or the Match that it is a part of."""
        self.block = Block()
        """The code."""


class Code:
    """The code of a function that is being made."""

    __slots__ = ("captured", "func", "own", "pinned", "routine", "scope", "template")

    def __init__(self, func: Function, parent: CodeScope | None) -> None:
        self.func = func
        """The function."""
        self.template: list[Value] = [()] * len(func.params)
        """The registers at the beginning: the parameters come first."""
        self.scope = CodeScope(self, parent)
        """The scope of the body."""
        self.pinned: dict[Expr, Slot] = {}
        """The constants and other atoms."""
        self.captured: dict[Slot, Slot] = {}
        """The values of the functions around it that it needs, and where it has them."""
        self.own: Slot | None = None
        """Where it has itself, if it is recursive."""
        self.routine = Routine(func, self.scope.block)
        """What is left of all this to be run."""

    def pin(self, value: Value = ()) -> Slot:
        """Return a slot that keeps its register, filled with a value at the beginning."""
        self.template.append(value)
        return Slot(self.scope, len(self.template) - 1, PINNED)


def lower(func: Function, value_of: AtomValue) -> tuple[Code, list[CodeScope]]:
    """Return the code of a function without its steps, and all scopes in it, each after those around it.

    Raises:
        EvaluationError: if a variable is free, or used outside of what binds it.

    """
    order = evaluation_order(func, ATOMS)
    if _binds_twice(order):
        unique = with_unique_binders(func)
        assert isinstance(unique, Function), "a function is a function under other names"
        return lower(unique, value_of)
    return _Lowering(func, order[1:-1], value_of).run()


def _binds_twice(order: Sequence[Event]) -> bool:
    """Tell whether a variable is bound in two places, so that what is below them may mean either."""
    bound: list[Var] = []
    for event in order:
        if type(event) is not Enter:
            continue
        binder = event.binder
        if isinstance(binder, Function):
            bound += dict.fromkeys(binder.params)
        elif isinstance(binder, Match):
            bound += binder.clauses[event.part].lhs.bound
        elif event.part == 0:
            bound.append(binder.var)
    return len(set(bound)) < len(bound)


class _Lowering:
    """The state of `lower`."""

    def __init__(self, func: Function, order: Sequence[Event], value_of: AtomValue) -> None:
        self._value_of = value_of
        self._order = order
        self._root = Code(func, None)
        self._scopes = [self._root.scope]
        self._parts: dict[Expr, list[CodeScope]] = {}
        self._slots: dict[Expr, Slot] = {}
        has_scopes = any(type(one) in _SCOPED for one in order)
        self._homes = home_scopes(self._root.scope, order, ATOMS, self._open) if has_scopes else {}

    def run(self) -> tuple[Code, list[CodeScope]]:
        root = self._root
        self._bind_params(root)
        for event in self._order:
            if type(event) is Enter:
                self._enter(event)
            elif type(event) is Let:
                self._slots[event] = self._slot_in(self._home(event), event.body)
                del self._slots[event.var]
            else:
                self._emit(event)
        root.scope.result = self._slot_in(root.scope, root.func.body)
        return root, self._scopes

    def _open(self, scope: CodeScope, node: Expr, part: int) -> CodeScope | None:
        """Make the scope of a part of a node; a Let shares that of what is around it."""
        if isinstance(node, Let):
            return None
        inner = Code(node, scope).scope if isinstance(node, Function) else CodeScope(scope.code, scope)
        self._parts.setdefault(node, []).append(inner)
        self._scopes.append(inner)
        return inner

    def _enter(self, event: Enter) -> None:
        """Let the variables of a binder come into being."""
        binder = event.binder
        if isinstance(binder, Function):
            self._bind_params(self._parts[binder][0].code)
        elif isinstance(binder, Match):
            scope = self._parts[binder][event.part]
            for variable in binder.clauses[event.part].lhs.bound:
                slot = self._slots[variable] = Slot(scope)
                scope.bound.append(slot)
        elif event.part:
            self._slots[binder.var] = self._slot_in(self._home(binder), binder.value)
        elif isinstance(binder.value, Function):  # which may call itself
            code = self._parts[binder.value][0].code
            code.own = self._slots[binder.var] = code.own or code.pin()

    def _bind_params(self, code: Code) -> None:
        for place, param in enumerate(code.func.params):
            self._slots[param] = Slot(code.scope, place, PINNED)

    def _emit(self, node: Expr) -> None:
        """Append the instruction for a node to the scope where it lives."""
        scope = self._home(node)
        args = self._close(node, scope) if type(node) is Function else self._args(scope, _operands(node))
        made = self._slots[node] = Instruction(scope, node, args)
        if type(node) is If or type(node) is Match:
            results = node.children[1:] if isinstance(node, If) else [one.rhs for one in node.clauses]
            for part, result in zip(self._parts[node], results, strict=True):
                part.opener = made
                part.result = self._slot_in(part, result)
        scope.instructions.append(made)

    def _home(self, node: Expr) -> CodeScope:
        return self._homes.get(node, self._root.scope)

    def _args(self, scope: CodeScope, operands: Iterable[Expr]) -> tuple[Slot, ...]:
        slots = self._slots
        found: list[Slot] = []
        for one in operands:
            slot = slots.get(one)
            found.append(slot if slot is not None and slot.scope is scope else self._slot_in(scope, one))
        return tuple(found)

    def _close(self, func: Function, scope: CodeScope) -> tuple[Slot, ...]:
        """End a function within, and return what it captures."""
        inner = self._parts[func][0]
        inner.result = self._slot_in(inner, func.body)
        return tuple([self._reach(one, scope) for one in inner.code.captured])

    def _slot_in(self, scope: CodeScope, expr: Expr) -> Slot:
        """Return where code in a scope finds the value of an expression."""
        slot = self._slots.get(expr) or scope.code.pinned.get(expr) or self._pin(expr, scope.code)
        return slot if slot.scope is scope else self._reach(slot, scope)

    def _pin(self, expr: Expr, code: Code) -> Slot:
        """Give an atom other than a variable a slot in the function that asks for it."""
        if isinstance(expr, Var):
            raise EvaluationError(f"variable %{expr.name_hint}{location(expr)} is free, or used outside of its scope")
        slot = code.pinned[expr] = code.pin(self._value_of(expr))
        return slot

    def _reach(self, slot: Slot, scope: CodeScope) -> Slot:
        """Return the slot itself, or the one in which the function around `scope` has captured its value."""
        if not scope.is_in(slot.scope):
            raise EvaluationError(f"a variable of {self._root.func!r} is used outside of what binds it")
        passed: list[Code] = []
        code: Code | None = scope.code
        while code is not None and code is not slot.scope.code and slot not in code.captured:
            passed.append(code)
            code = None if code.scope.parent is None else code.scope.parent.code
        for one in passed:
            one.captured[slot] = one.pin()
        return slot if scope.code is slot.scope.code else scope.code.captured[slot]


def _operands(node: Expr) -> tuple[Expr, ...]:
    """Return what must be there before a node's own step."""
    if type(node) is Call and type(node.op) in _DIRECT:
        return node.args
    return node.children[:1] if isinstance(node, If | Match) else node.children
