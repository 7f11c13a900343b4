"""How deep programs may be for the evaluator, and what it keeps in memory."""

import tracemalloc

import numpy as np
import pytest

from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter import machine
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, RefValue, Value
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.compare import equal
from apass.relay.ref import RefCreate
from tests.relay.evaluation import CONS, ONE, X, count_down, plain


def nesting(value: Value) -> int:
    """Return how many tuples, cells and values of data types are around the innermost value."""
    depth = 0
    while not isinstance(value, np.ndarray):
        assert isinstance(value, tuple | RefValue | ADTValue)
        inner = value if isinstance(value, tuple) else value.fields if isinstance(value, ADTValue) else (value.value,)
        value, depth = inner[0], depth + 1
    return depth


def test_a_chain_of_a_million_calls() -> None:
    expr: Expr = X
    for _ in range(1_000_000):
        expr = add(expr, ONE)
    assert plain(evaluate(Function([X], expr), 5)) == 1_000_005


def test_values_nest_deep() -> None:
    nested: list[Expr] = [X, X, X]
    for _ in range(100_000):
        nested = [Tuple([nested[0]]), RefCreate(nested[1]), Call(CONS, [nested[2]])]
    values = evaluate(Tuple(nested), 5)
    assert isinstance(values, tuple)
    assert [nesting(one) for one in values] == [100_000] * 3


def test_a_chain_of_lets_is_long() -> None:
    variables = [X, *(var(f"v{place}") for place in range(200_000))]
    body: Expr = variables[-1]
    for before, after in zip(variables[-2::-1], variables[:0:-1], strict=True):
        body = Let(after, add(before, ONE), body)
    assert plain(evaluate(Function([X], body), 0)) == 200_000


def test_a_recursion_is_deep() -> None:
    func = GlobalVar("f")
    mod = IRModule({func: count_down(func, const(0), lambda rest: add(rest, ONE))})
    assert plain(evaluate(Call(func, [const(100_000)]), mod=mod)) == 100_000


def test_branches_and_functions_nest_deep() -> None:
    expr: Expr = X
    for place in range(20_000):
        expr = If(equal(X, const(place)), ONE, expr) if place % 2 else Call(Function([], expr), [])
    assert plain(evaluate(expr, -1)) == -1


def test_a_call_in_the_last_place_needs_no_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_DEPTH", 100)
    func = GlobalVar("f")
    mod = IRModule({func: count_down(func, const(0), lambda rest: rest)})
    assert plain(evaluate(Call(func, [const(10_000)]), mod=mod)) == 0


def test_a_recursion_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_DEPTH", 1000)
    func = GlobalVar("f")
    mod = IRModule({func: Function([X], add(Call(func, [X]), ONE))})
    with pytest.raises(EvaluationError, match="calls are nested more than 1,000 deep"):
        evaluate(Call(func, [ONE]), mod=mod)


def test_what_is_not_needed_any_more_is_let_go() -> None:
    x = var("x", shape=(1 << 18,))
    expr: Expr = x
    for place in range(100):
        expr = add(expr, const(1.0))
        expr = If(const(place % 2 == 0), add(expr, expr), expr)
        held = var(f"v{place}")
        expr = Let(held, expr, add(held, Call(Function([], add(held, held)), [])))
    data = np.zeros(1 << 18, "float32")
    tracemalloc.start()
    try:
        evaluate(Function([x], expr), data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * data.nbytes
