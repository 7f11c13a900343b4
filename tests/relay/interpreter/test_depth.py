"""The evaluator runs deep programs, and releases values that are not needed."""

import tracemalloc

import numpy as np
import pytest

from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Expr, GlobalVar, If, Let, Tuple
from apass.relay.function import Function
from apass.relay.interpreter import machine
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import ADTValue, RefValue, Value
from apass.relay.ir.expr import RefCreate, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.compare import equal
from tests.helpers.amounts import levels
from tests.helpers.relay.evaluation import CONS, ONE, X, count_down, plain


def nesting(value: Value) -> int:
    """Return the nesting depth of tuples, cells and values of data types."""
    depth = 0
    while not isinstance(value, np.ndarray):
        assert isinstance(value, tuple | RefValue | ADTValue)
        inner = value if isinstance(value, tuple) else value.fields if isinstance(value, ADTValue) else (value.value,)
        value, depth = inner[0], depth + 1
    return depth


def test_deep_calls_are_evaluated() -> None:
    expr: Expr = X
    for _ in range(levels(200_000)):
        expr = add(expr, ONE)
    assert plain(evaluate(Function([X], expr), 5)) == levels(200_000) + 5


def test_deep_values_are_evaluated() -> None:
    nested: list[Expr] = [X, X, X]
    for _ in range(levels(100_000)):
        nested = [Tuple([nested[0]]), RefCreate(nested[1]), Call(CONS, [nested[2]])]
    values = evaluate(Tuple(nested), 5)
    assert isinstance(values, tuple)
    assert [nesting(value) for value in values] == [levels(100_000)] * 3


def test_deep_lets_are_evaluated() -> None:
    variables = [X, *(var(f"v{index}") for index in range(levels(50_000)))]
    body: Expr = variables[-1]
    for before, after in zip(variables[-2::-1], variables[:0:-1], strict=True):
        body = Let(after, add(before, ONE), body)
    assert plain(evaluate(Function([X], body), 0)) == levels(50_000)


def test_deep_recursion_is_evaluated() -> None:
    func = GlobalVar("f")
    mod = IRModule({func: count_down(func, const(0), lambda rest: add(rest, ONE))})
    assert plain(evaluate(Call(func, [const(levels(100_000))]), mod=mod)) == levels(100_000)


def test_deep_branches_and_functions_are_evaluated() -> None:
    expr: Expr = X
    for number in range(levels(20_000)):
        expr = If(equal(X, const(number)), ONE, expr) if number % 2 else Call(Function([], expr), [])
    assert plain(evaluate(expr, -1)) == -1


def test_tail_call_does_not_increase_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_DEPTH", 100)
    func = GlobalVar("f")
    mod = IRModule({func: count_down(func, const(0), lambda rest: rest)})
    assert plain(evaluate(Call(func, [const(10_000)]), mod=mod)) == 0


def test_infinite_recursion_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MAX_DEPTH", 1000)
    func = GlobalVar("f")
    mod = IRModule({func: Function([X], add(Call(func, [X]), ONE))})
    with pytest.raises(EvaluationError, match="calls are nested more than 1,000 deep"):
        evaluate(Call(func, [ONE]), mod=mod)


def test_unneeded_values_are_released() -> None:
    x = var("x", shape=(1 << 18,))
    expr: Expr = x
    for number in range(100):
        expr = add(expr, const(1.0))
        expr = If(const(number % 2 == 0), add(expr, expr), expr)
        value = var(f"v{number}")
        expr = Let(value, expr, add(value, Call(Function([], add(value, value)), [])))
    data = np.zeros(1 << 18, "float32")
    tracemalloc.start()
    try:
        evaluate(Function([x], expr), data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * data.nbytes
