"""Register allocation: assigns registers to slots, and creates the steps."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from apass.relay.errors import EvaluationError
from apass.relay.interpreter.instructions import CallStep, IfStep, Indices, MakeStep, MatchStep, OpStep, Step, location
from apass.relay.interpreter.lowering import PINNED, CodeScope, Instruction, Slot
from apass.relay.interpreter.values import ADTValue, RefValue, Value, describe_value
from apass.relay.ir.adt import Constructor, Match
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, If, Op, RefCreate, RefRead, RefWrite, TupleGetItem
from apass.relay.ir.function import Function

__all__ = ["MakeClosure", "allocate", "kernel_of"]

MakeClosure: TypeAlias = Callable[..., Value]
"""Creates a closure from a routine and its captured values."""


def allocate(scopes: Sequence[CodeScope], make_closure: MakeClosure) -> None:
    """Fill the blocks and routines of the scopes returned by `lower`."""
    for scope in reversed(scopes):
        _find_last_uses(scope)
        for slot in scope.bound:
            slot.register = _new_register(scope.code.template)
    allocation = _Allocation(scopes, make_closure)
    for scope in scopes:
        allocation.fill(scope)
    for code in {scope.code: None for scope in scopes}:
        routine = code.routine
        routine.template = code.template
        routine.captured = tuple(slot.register for slot in code.captured.values())
        routine.self_register = -1 if code.self_slot is None else code.self_slot.register


def _find_last_uses(scope: CodeScope) -> None:
    """Set the last uses in a scope. Inner scopes must be processed before."""
    for number, instruction in enumerate(scope.instructions):
        for slot in instruction.args:
            _use(slot, scope, number)
        for slot in instruction.nested_args:
            slot.last = max(slot.last, number)
    if scope.result is not None:
        _use(scope.result, scope, len(scope.instructions))


def _use(slot: Slot, scope: CodeScope, number: int) -> None:
    if slot.last == PINNED:
        return
    if slot.scope is scope:
        slot.last = max(slot.last, number)
        return
    opener = scope.within(slot.scope).opener
    assert opener is not None, "an inner scope of a function belongs to an If or Match"
    opener.nested_args = (*opener.nested_args, slot)


class _Allocation:
    """The state of `allocate`."""

    def __init__(self, scopes: Sequence[CodeScope], make_closure: MakeClosure) -> None:
        self._make_closure = make_closure
        self._interned: dict[Indices, Indices] = {}
        self._parts: dict[Instruction, list[CodeScope]] = {}
        for scope in scopes:
            if scope.opener is not None:
                self._parts.setdefault(scope.opener, []).append(scope)
        self._routines = {scope.code.func: scope.code.routine for scope in scopes}

    def fill(self, scope: CodeScope) -> None:
        """Create the steps of a block. Free registers are reused only within the block."""
        free: list[int] = []
        template, steps = scope.code.template, scope.block.steps
        for number, instruction in enumerate(scope.instructions):
            used = (*instruction.args, *instruction.nested_args) if instruction.nested_args else instruction.args
            dead = [slot.register for slot in used if slot.last == number and slot.scope is scope]
            if len(dead) > 1:
                dead = list(dict.fromkeys(dead))
            out = instruction.register = dead.pop() if dead else free.pop() if free else _new_register(template)
            free += dead
            if instruction.last < 0:
                free.append(out)
            steps.append(self._step(instruction, tuple(dead)))
        result = scope.result
        if result is not None:
            scope.block.result = result.register
            scope.block.dead = (result.register,) if result.scope is scope and result.last != PINNED else ()

    def _step(self, instruction: Instruction, dead: Indices) -> Step:
        expr, out = instruction.expr, instruction.register
        # Equal index tuples share one object, which saves memory in programs with many steps.
        args = tuple([slot.register for slot in instruction.args])
        args = self._interned.setdefault(args, args)
        dead = self._interned.setdefault(dead, dead) if dead else ()
        if type(expr) is Call and type(expr.op) is Op:
            return OpStep(expr, kernel_of(expr.op, expr.attrs), args, dead, out)
        if isinstance(expr, If):
            true_scope, false_scope = self._parts[instruction]
            return IfStep(expr, args, dead, out, (true_scope.block, false_scope.block))
        if isinstance(expr, Match):
            parts = zip(expr.clauses, self._parts[instruction], strict=True)
            clauses = tuple(
                (clause.lhs, tuple(slot.register for slot in scope.bound), scope.block) for clause, scope in parts
            )
            return MatchStep(expr, args, dead, out, clauses)
        if isinstance(expr, Function):
            return MakeStep(partial(self._make_closure, self._routines[expr]), args, dead, out)
        make = _maker(expr)
        return CallStep(expr, args, dead, out) if make is None else MakeStep(make, args, dead, out)


def _maker(expr: Expr) -> Callable[..., Value] | None:
    """Return the function that computes `expr` from its operands; None for calls."""
    if isinstance(expr, Call):
        return partial(_make_adt, expr.op) if isinstance(expr.op, Constructor) else None
    if isinstance(expr, TupleGetItem):
        return partial(_get_item, expr)
    if isinstance(expr, RefRead):
        return partial(_read, expr)
    if isinstance(expr, RefWrite):
        return partial(_write, expr)
    return RefValue if isinstance(expr, RefCreate) else _make_tuple


def _new_register(template: list[Value]) -> int:
    template.append(())
    return len(template) - 1


def kernel_of(op: Op, attrs: Attrs | None) -> Callable[..., object]:
    """Return the kernel of an operator with its attributes bound.

    If the operator has no kernel, the returned function raises EvaluationError.

    Raises:
        EvaluationError: if `attrs` is None and an attribute has no default.

    """
    if op.compute is None:
        return partial(_no_kernel, op)
    if op.attrs_type is None:
        return op.compute
    return partial(op.compute, _default_attrs(op) if attrs is None else attrs)


def _default_attrs(op: Op) -> Attrs | None:
    try:
        return op.make_attrs()
    except TypeError as error:
        raise EvaluationError(f"a call of {op.name} requires attributes, got none: {error}") from error


def _no_kernel(op: Op, *_: Value) -> Value:
    raise EvaluationError(f"operator {op.name} has no kernel; register one with register_op(compute=...)")


def _make_tuple(*fields: Value) -> Value:
    return fields


def _make_adt(constructor: Constructor, *fields: Value) -> Value:
    return ADTValue(constructor, fields)


def _get_item(expr: TupleGetItem, value: Value) -> Value:
    if not isinstance(value, tuple) or not 0 <= expr.index < len(value):
        text = describe_value(value)
        raise EvaluationError(f"{expr!r}{location(expr)} requires field {expr.index}, but {text} does not have it")
    return value[expr.index]


def _read(expr: RefRead, cell: Value) -> Value:
    return _cell(expr, cell).value


def _write(expr: RefWrite, cell: Value, value: Value) -> Value:
    _cell(expr, cell).value = value
    return ()


def _cell(expr: Expr, cell: Value) -> RefValue:
    if not isinstance(cell, RefValue):
        raise EvaluationError(f"{expr!r}{location(expr)} requires a reference, got {describe_value(cell)}")
    return cell
