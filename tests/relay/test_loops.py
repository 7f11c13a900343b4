"""`while_loop` makes a function that calls itself."""

import numpy as np

from apass.relay.expr import Call, Expr, Let
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.loops import while_loop
from apass.relay.make import const, var
from apass.relay.type_inference.infer import infer_expr, infer_module


def below_three(i: Expr, _: Expr) -> Expr:
    return i < const(3)


def counted_and_doubled(i: Expr, x: Expr) -> list[Expr]:
    return [i + const(1), x + x]


def last_values(mod: IRModule, *args: Array) -> tuple[object, ...]:
    made = evaluate(mod, *args)
    assert isinstance(made, tuple)
    return made


def test_a_loop_gives_the_last_values_of_its_variables() -> None:
    i, x = var("i", "int32"), var("x", shape=(2,))
    loop = while_loop(below_three, [i, x], counted_and_doubled)
    mod = infer_module(IRModule.from_expr(Function([x], Call(loop, [const(0), x]))))
    count, doubled = last_values(mod, np.array([1, 2], "float32"))
    assert count == 3
    assert np.array_equal(np.asarray(doubled), [8, 16])


def test_the_variables_of_a_loop_are_named_and_typed_as_those_that_are_given() -> None:
    first = infer_expr(const(1) + const(2))
    loop = while_loop(below_three, [first, var("x", "float32")], counted_and_doubled)
    assert isinstance(loop, Let)
    assert isinstance(loop.value, Function)
    assert [str(param) for param in loop.value.params] == [
        "free_var %arg0: int32;\n%arg0",
        "free_var %x: float32;\n%x",
    ]


def test_a_loop_whose_condition_never_holds_gives_what_it_was_given() -> None:
    loop = while_loop(below_three, [var("i", "int32"), var("x", "int32")], counted_and_doubled)
    mod = infer_module(IRModule.from_expr(Function([], loop(const(4), const(5)))))
    assert last_values(mod) == (4, 5)
