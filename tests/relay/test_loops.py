"""`while_loop` returns a recursive function."""

import numpy as np

from apass.relay.expr import Call, Expr, Let
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.loops import while_loop
from apass.relay.type_inference.infer import infer_expr, infer_module


def below_three(i: Expr, _: Expr) -> Expr:
    return i < const(3)


def counted_and_doubled(i: Expr, x: Expr) -> list[Expr]:
    return [i + const(1), x + x]


def last_values(mod: IRModule, *args: Array) -> tuple[object, ...]:
    values = evaluate(mod, *args)
    assert isinstance(values, tuple)
    return values


def test_loop_returns_last_values_of_variables() -> None:
    i, x = var("i", "int32"), var("x", shape=(2,))
    loop = while_loop(below_three, [i, x], counted_and_doubled)
    mod = infer_module(IRModule.from_expr(Function([x], Call(loop, [const(0), x]))))
    count, doubled = last_values(mod, np.array([1, 2], "float32"))
    assert count == 3
    assert np.array_equal(np.asarray(doubled), [8, 16])


def test_loop_variables_keep_names_and_types() -> None:
    first = infer_expr(const(1) + const(2))
    loop = while_loop(below_three, [first, var("x", "float32")], counted_and_doubled)
    assert isinstance(loop, Let)
    assert isinstance(loop.value, Function)
    assert [str(param) for param in loop.value.params] == [
        "free_var %arg0: int32;\n%arg0",
        "free_var %x: float32;\n%x",
    ]


def test_loop_with_false_condition_returns_initial_values() -> None:
    loop = while_loop(below_three, [var("i", "int32"), var("x", "int32")], counted_and_doubled)
    mod = infer_module(IRModule.from_expr(Function([], loop(const(4), const(5)))))
    assert last_values(mod) == (4, 5)
