"""`Effects`: which expressions may be dropped, moved, copied and merged."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternWildcard
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.expr import RefCreate, RefRead, RefWrite, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ty import GlobalTypeVar

X, F, G, CELL = var("x"), var("f"), var("g"), var("cell")
WRITE = RefWrite(CELL, X)
WRITER = Function([], WRITE)
RANDOM = Op(name="test.random")
RANDOM.set_attr("TOpIsStateful", True)
CON = Constructor("Con", [], GlobalTypeVar("Type"))

CASES: list[tuple[Expr, Effect]] = [
    (X, Effect.NONE),
    (add(X, const(1.0)), Effect.NONE),
    (Call(RANDOM, [X]), Effect.WRITE),
    (Call(CON, [X]), Effect.NONE),
    (Call(CON, [RefRead(CELL)]), Effect.STATE),
    (RefCreate(X), Effect.STATE),
    (RefRead(CELL), Effect.STATE),
    (WRITE, Effect.WRITE),
    (TupleGetItem(Tuple([X, WRITE]), 0), Effect.WRITE),
    (If(X, RefRead(CELL), X), Effect.STATE),
    (Match(X, [Clause(PatternWildcard(), WRITE)]), Effect.WRITE),
    (Let(X, WRITE, X), Effect.WRITE),
    (WRITER, Effect.NONE),
    (Call(WRITER, []), Effect.WRITE),
    (Call(Function([X], X), [X]), Effect.NONE),
    (Call(Function([], WRITER), []), Effect.NONE),
    (Call(Call(Function([], Function([], X)), []), []), Effect.WRITE),
    (Call(X, []), Effect.WRITE),
    (Call(Function([F], Call(F, [])), [Function([], X)]), Effect.WRITE),
    (Let(F, WRITER, Tuple([F])), Effect.NONE),
    (Let(F, WRITER, Call(F, [])), Effect.WRITE),
    (Let(F, Function([], X), Let(G, F, Call(G, []))), Effect.NONE),
    (Let(F, Function([], If(X, X, Call(F, []))), Call(F, [])), Effect.NONE),
    (Let(F, Function([], If(WRITE, X, Call(F, []))), Call(F, [])), Effect.WRITE),
]


@pytest.mark.parametrize(("expr", "effect"), CASES)
def test_effects_of_each_kind_of_expression(expr: Expr, effect: Effect) -> None:
    assert Effects(expr).of(expr) is effect


def test_function_in_recursive_function_has_callee_effects() -> None:
    inner = Call(G, [])
    recursive = Function([], Let(G, Function([], Call(F, [])), Tuple([inner, WRITE])))
    assert Effects(Let(F, recursive, Call(F, []))).of(inner) is Effect.WRITE


BODIES: list[tuple[Callable[[Expr], Expr], Effect]] = [
    (lambda callee: X, Effect.NONE),
    (lambda callee: If(X, X, Call(callee, [X])), Effect.NONE),
    (lambda callee: Tuple([RefCreate(X), Call(callee, [X])]), Effect.STATE),
    (lambda callee: Tuple([WRITE, Call(callee, [X])]), Effect.WRITE),
    (lambda callee: Call(GlobalVar("other"), [X]), Effect.WRITE),
]


@pytest.mark.parametrize(("body", "effect"), BODIES)
def test_effects_of_global_function_come_from_module(body: Callable[[Expr], Expr], effect: Effect) -> None:
    gvar = GlobalVar("f")
    mod = IRModule({gvar: Function([X], body(gvar)), GlobalVar("other"): Function([X], X)})
    call = Call(gvar, [X])
    assert (Effects(call, mod).of(call), Effects(call).of(call)) == (effect, Effect.WRITE)


def test_effects_of_new_expression_are_computed() -> None:
    root = Let(F, WRITER, X)
    effects = Effects(root)
    assert effects.of(root) is Effect.NONE
    assert effects.of(Tuple([Call(F, []), X])) is Effect.WRITE
