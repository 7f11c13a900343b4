"""Registers for slots, and the steps that use them; a register serves again once nothing needs its value."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from apass.relay.adt import Constructor, Match
from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Expr, If, Op, TupleGetItem
from apass.relay.function import Function
from apass.relay.interpreter.instructions import CallStep, IfStep, MakeStep, MatchStep, OpStep, Places, Step, location
from apass.relay.interpreter.lowering import PINNED, CodeScope, Instruction, Slot
from apass.relay.interpreter.values import ADTValue, RefValue, Value, describe_value
from apass.relay.ir.attrs import Attrs
from apass.relay.ref import RefCreate, RefRead, RefWrite

__all__ = ["MakeClosure", "allocate", "kernel_of"]

MakeClosure: TypeAlias = Callable[..., Value]
"""Makes a closure of a routine and the values that it has captured."""


def allocate(scopes: Sequence[CodeScope], make_closure: MakeClosure) -> None:
    """Fill the blocks of all scopes that `lower` gave, and the routines of the functions in them."""
    for scope in reversed(scopes):
        _find_last_uses(scope)
        for slot in scope.bound:
            slot.place = _new_register(scope.code.template)
    allocation = _Allocation(scopes, make_closure)
    for scope in scopes:
        allocation.fill(scope)
    for code in {scope.code: None for scope in scopes}:
        routine = code.routine
        routine.template = code.template
        routine.captured = tuple(one.place for one in code.captured.values())
        routine.own = -1 if code.own is None else code.own.place


def _find_last_uses(scope: CodeScope) -> None:
    """Note what the instructions of a scope need; those of the scopes within have been gone over before."""
    for number, instruction in enumerate(scope.instructions):
        for slot in instruction.args:
            _use(slot, scope, number)
        for slot in instruction.held:
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
    assert opener is not None, "a scope within a function is a part of an If or of a Match"
    opener.held = (*opener.held, slot)


class _Allocation:
    """The state of `allocate`."""

    def __init__(self, scopes: Sequence[CodeScope], make_closure: MakeClosure) -> None:
        self._make_closure = make_closure
        self._known: dict[Places, Places] = {}
        self._parts: dict[Instruction, list[CodeScope]] = {}
        for scope in scopes:
            if scope.opener is not None:
                self._parts.setdefault(scope.opener, []).append(scope)
        self._routines = {scope.code.func: scope.code.routine for scope in scopes}

    def fill(self, scope: CodeScope) -> None:
        """Make the steps of a block; registers that are free again are used again in this block alone."""
        free: list[int] = []
        template, steps = scope.code.template, scope.block.steps
        for number, instruction in enumerate(scope.instructions):
            needed = (*instruction.args, *instruction.held) if instruction.held else instruction.args
            dying = [one.place for one in needed if one.last == number and one.scope is scope]
            if len(dying) > 1:
                dying = list(dict.fromkeys(dying))
            out = instruction.place = dying.pop() if dying else free.pop() if free else _new_register(template)
            free += dying
            if instruction.last < 0:
                free.append(out)
            steps.append(self._step(instruction, tuple(dying)))
        result = scope.result
        if result is not None:
            scope.block.result = result.place
            scope.block.dead = (result.place,) if result.scope is scope and result.last != PINNED else ()

    def _step(self, instruction: Instruction, dying: Places) -> Step:
        expr, out = instruction.expr, instruction.place
        args = tuple([one.place for one in instruction.args])
        args = self._known.setdefault(args, args)
        dead = self._known.setdefault(dying, dying) if dying else ()
        if type(expr) is Call and type(expr.op) is Op:
            return OpStep(expr, kernel_of(expr.op, expr.attrs), args, dead, out)
        if isinstance(expr, If):
            yes, no = self._parts[instruction]
            return IfStep(expr, args, dead, out, (yes.block, no.block))
        if isinstance(expr, Match):
            parts = zip(expr.clauses, self._parts[instruction], strict=True)
            clauses = tuple((one.lhs, tuple(slot.place for slot in part.bound), part.block) for one, part in parts)
            return MatchStep(expr, args, dead, out, clauses)
        if isinstance(expr, Function):
            return MakeStep(partial(self._make_closure, self._routines[expr]), args, dead, out)
        make = _maker(expr)
        return CallStep(expr, args, dead, out) if make is None else MakeStep(make, args, dead, out)


def _maker(expr: Expr) -> Callable[..., Value] | None:
    """Return what makes the value of an expression from those of its operands; None for a call of a function."""
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
    """Return the kernel of an operator, attributes filled in; one that raises EvaluationError if it has none.

    Raises:
        EvaluationError: if attributes are needed and there are none.

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
        raise EvaluationError(f"a call of {op.name} has no attributes, which it needs: {error}") from error


def _no_kernel(op: Op, *_: Value) -> Value:
    raise EvaluationError(f"operator {op.name} has no kernel, so it has no value: register_op(compute=...)")


def _make_tuple(*fields: Value) -> Value:
    return fields


def _make_adt(constructor: Constructor, *fields: Value) -> Value:
    return ADTValue(constructor, fields)


def _get_item(expr: TupleGetItem, value: Value) -> Value:
    if not isinstance(value, tuple) or not 0 <= expr.index < len(value):
        raise EvaluationError(
            f"{describe_value(value)} has no field {expr.index}; {expr!r}{location(expr)} asks for it"
        )
    return value[expr.index]


def _read(expr: RefRead, cell: Value) -> Value:
    return _cell(expr, cell).value


def _write(expr: RefWrite, cell: Value, value: Value) -> Value:
    _cell(expr, cell).value = value
    return ()


def _cell(expr: Expr, cell: Value) -> RefValue:
    if not isinstance(cell, RefValue):
        raise EvaluationError(f"{expr!r}{location(expr)} needs a reference, not {describe_value(cell)}")
    return cell
