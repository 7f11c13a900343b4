"""Lowering of functions to code: each expression becomes a step in its home scope.

A `Slot` represents the value of an expression. `registers` assigns registers to slots and creates the steps.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self, TypeAlias

from apass.relay.dataflow.scopes import Enter, Event, HomeScope, evaluation_order, home_scopes
from apass.relay.errors import EvaluationError
from apass.relay.interpreter.instructions import Block, Routine, location
from apass.relay.interpreter.values import Value
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.expr import Call, Constant, Expr, GlobalVar, If, Let, Op, Var
from apass.relay.ir.function import Function
from apass.relay.rewrite.renaming import with_unique_binders

__all__ = ["ATOMS", "PINNED", "Code", "CodeScope", "Instruction", "Slot", "lower"]

ATOMS: Final = frozenset({Var, GlobalVar, Constant, Op, Constructor})
"""The classes of expressions that need no step."""

_DIRECT: Final = frozenset({Op, Constructor})
_SCOPED: Final = frozenset({Function, If, Match})

PINNED: Final = 1 << 60
"""The last use of a slot whose register is never reused."""

AtomValue: TypeAlias = Callable[[Expr], Value]
"""Returns the value of a constant, operator, constructor or global variable."""


class Slot:
    """The value of one expression in one activation of a function."""

    __slots__ = ("last", "register", "scope")

    def __init__(self, scope: "CodeScope", register: int = -1, last: int = -1) -> None:
        self.scope: CodeScope = scope
        """The scope that computes it."""
        self.register: int = register
        """The register, -1 before allocation."""
        self.last: int = last
        """The index of the last instruction of the scope that uses it."""


class Instruction(Slot):
    """A step before register allocation, and the slot of its value."""

    __slots__ = ("args", "expr", "nested_args")

    def __init__(self, scope: "CodeScope", expr: Expr, args: tuple[Slot, ...]) -> None:
        self.scope = scope  # set here and not by `super().__init__` for speed: every node has an instruction
        self.register = self.last = -1
        self.expr: Expr = expr
        """The expression."""
        self.args: tuple[Slot, ...] = args
        """The slots of its operands."""
        self.nested_args: tuple[Slot, ...] = ()
        """The slots of its scope that its branches or clauses use."""


class CodeScope(HomeScope):
    """A scope and its code."""

    __slots__ = ("block", "bound", "code", "instructions", "opener", "result")

    def __init__(self, code: "Code", parent: Self | None) -> None:
        super().__init__(parent)
        self.code: Code = code
        """The code of the function that contains it."""
        self.instructions: list[Instruction] = []
        """The instructions in order."""
        self.bound: list[Slot] = []
        """The slots of the variables in the pattern of a clause."""
        self.result: Slot | None = None
        """The slot of the value."""
        self.opener: Instruction | None = None
        """The If or Match instruction that contains this scope as a branch or clause."""
        self.block: Block = Block()
        """The block to be filled."""


class Code:
    """The code of a function during lowering."""

    __slots__ = ("captured", "func", "pinned", "routine", "scope", "self_slot", "template")

    def __init__(self, func: Function, parent: CodeScope | None) -> None:
        self.func: Function = func
        """The function."""
        self.template: list[Value] = [()] * len(func.params)
        """The initial registers. The parameters come first."""
        self.scope: CodeScope = CodeScope(self, parent)
        """The scope of the body."""
        self.pinned: dict[Expr, Slot] = {}
        """The slots of constants and other atoms."""
        self.captured: dict[Slot, Slot] = {}
        """The slots of enclosing functions that it captures, and its own slots for them."""
        self.self_slot: Slot | None = None
        """The slot of the function itself, if it is recursive."""
        self.routine: Routine = Routine(func, self.scope.block)
        """The result of the lowering."""

    def pin(self, value: Value = ()) -> Slot:
        """Return a slot with a fixed register and an initial value."""
        self.template.append(value)
        return Slot(self.scope, len(self.template) - 1, PINNED)


def lower(func: Function, value_of: AtomValue) -> tuple[Code, list[CodeScope]]:
    """Return the code of a function without steps, and its scopes, outer scopes first.

    Raises:
        EvaluationError: if a variable is free, or is used outside its scope.

    """
    order = evaluation_order(func, ATOMS)
    if _binds_twice(order):
        unique = with_unique_binders(func)
        assert isinstance(unique, Function), "renaming preserves the class of an expression"
        return lower(unique, value_of)
    return _Lowering(func, order[1:-1], value_of).run()


def _binds_twice(order: Sequence[Event]) -> bool:
    """Return whether a variable is bound twice, so that its uses are ambiguous."""
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
        has_scopes = any(type(event) in _SCOPED for event in order)
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
        """Create the scope of a part of a node. A Let uses the enclosing scope."""
        if isinstance(node, Let):
            return None
        inner = Code(node, scope).scope if isinstance(node, Function) else CodeScope(scope.code, scope)
        self._parts.setdefault(node, []).append(inner)
        self._scopes.append(inner)
        return inner

    def _enter(self, event: Enter) -> None:
        """Create the slots of the variables of a binder."""
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
            code.self_slot = self._slots[binder.var] = code.self_slot or code.pin()

    def _bind_params(self, code: Code) -> None:
        for index, param in enumerate(code.func.params):
            self._slots[param] = Slot(code.scope, index, PINNED)

    def _emit(self, node: Expr) -> None:
        """Append the instruction for a node to its home scope."""
        scope = self._home(node)
        args = self._close(node, scope) if type(node) is Function else self._args(scope, _operands(node))
        instruction = self._slots[node] = Instruction(scope, node, args)
        if type(node) is If or type(node) is Match:
            results = node.children[1:] if isinstance(node, If) else [clause.rhs for clause in node.clauses]
            for part, result in zip(self._parts[node], results, strict=True):
                part.opener = instruction
                part.result = self._slot_in(part, result)
        scope.instructions.append(instruction)

    def _home(self, node: Expr) -> CodeScope:
        return self._homes.get(node, self._root.scope)

    def _args(self, scope: CodeScope, operands: Iterable[Expr]) -> tuple[Slot, ...]:
        slots = self._slots
        args: list[Slot] = []
        for operand in operands:
            slot = slots.get(operand)
            args.append(slot if slot is not None and slot.scope is scope else self._slot_in(scope, operand))
        return tuple(args)

    def _close(self, func: Function, scope: CodeScope) -> tuple[Slot, ...]:
        """Finish a nested function, and return the slots that it captures."""
        inner = self._parts[func][0]
        inner.result = self._slot_in(inner, func.body)
        return tuple([self._reach(slot, scope) for slot in inner.code.captured])

    def _slot_in(self, scope: CodeScope, expr: Expr) -> Slot:
        """Return the slot in which code in a scope finds the value of an expression."""
        slot = self._slots.get(expr) or scope.code.pinned.get(expr) or self._pin(expr, scope.code)
        return slot if slot.scope is scope else self._reach(slot, scope)

    def _pin(self, expr: Expr, code: Code) -> Slot:
        """Create the slot of an atom that is not a variable in a function."""
        if isinstance(expr, Var):
            raise EvaluationError(f"variable %{expr.name_hint}{location(expr)} is free, or is used outside its scope")
        slot = code.pinned[expr] = code.pin(self._value_of(expr))
        return slot

    def _reach(self, slot: Slot, scope: CodeScope) -> Slot:
        """Return the slot, or the slot in which the function of `scope` captures it."""
        if not scope.is_in(slot.scope):
            raise EvaluationError(f"a variable of {self._root.func!r} is used outside its scope")
        inner_codes: list[Code] = []
        code: Code | None = scope.code
        while code is not None and code is not slot.scope.code and slot not in code.captured:
            inner_codes.append(code)
            code = None if code.scope.parent is None else code.scope.parent.code
        for inner in inner_codes:
            inner.captured[slot] = inner.pin()
        return slot if scope.code is slot.scope.code else scope.code.captured[slot]


def _operands(node: Expr) -> tuple[Expr, ...]:
    """Return the operands of the step of a node."""
    if type(node) is Call and type(node.op) in _DIRECT:
        return node.args
    return node.children[:1] if isinstance(node, If | Match) else node.children
