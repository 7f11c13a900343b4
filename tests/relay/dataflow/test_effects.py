"""`Effects`: what may be dropped, what may be moved, and what may be neither."""

from collections.abc import Callable

import pytest

from apass.relay.adt import Clause, Constructor, Match, PatternWildcard
from apass.relay.dataflow.effects import Effect, Effects
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ref import RefCreate, RefRead, RefWrite
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
def test_what_an_expression_does_besides_giving_its_value(expr: Expr, effect: Effect) -> None:
    assert Effects(expr).of(expr) is effect


def test_a_function_within_a_recursive_one_has_the_effects_of_what_it_calls() -> None:
    inner = Call(G, [])
    recursive = Function([], Let(G, Function([], Call(F, [])), Tuple([inner, WRITE])))
    assert Effects(Let(F, recursive, Call(F, []))).of(inner) is Effect.WRITE


BODIES: list[tuple[Callable[[Expr], Expr], Effect]] = [
    (lambda own: X, Effect.NONE),
    (lambda own: If(X, X, Call(own, [X])), Effect.NONE),
    (lambda own: Tuple([RefCreate(X), Call(own, [X])]), Effect.STATE),
    (lambda own: Tuple([WRITE, Call(own, [X])]), Effect.WRITE),
    (lambda own: Call(GlobalVar("other"), [X]), Effect.WRITE),
]


@pytest.mark.parametrize(("body", "effect"), BODIES)
def test_a_global_function_is_known_by_its_module(body: Callable[[Expr], Expr], effect: Effect) -> None:
    gvar = GlobalVar("f")
    mod = IRModule({gvar: Function([X], body(gvar)), GlobalVar("other"): Function([X], X)})
    call = Call(gvar, [X])
    assert (Effects(call, mod).of(call), Effects(call).of(call)) == (effect, Effect.WRITE)


def test_what_is_made_later_is_known_too() -> None:
    root = Let(F, WRITER, X)
    effects = Effects(root)
    assert effects.of(root) is Effect.NONE
    assert effects.of(Tuple([Call(F, []), X])) is Effect.WRITE
