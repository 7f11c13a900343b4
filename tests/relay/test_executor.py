"""TVM's way to run programs."""

from typing import cast

import numpy as np
import pytest

from apass import relay
from apass.relay.executor import create_executor
from apass.relay.expr import Call, Expr, GlobalVar, Tuple
from apass.relay.function import Function
from apass.relay.make import const, var
from apass.relay.module import IRModule
from apass.relay.ndarray import NDArray
from apass.relay.op.arithmetic import add, multiply

X, Y = var("x", shape=(2,)), var("y", shape=(2,))
ONE_TWO = np.array([1, 2], "float32")


def numbers(value: object) -> object:
    assert isinstance(value, NDArray)
    return value.numpy().tolist()


def result(func: object, *args: object, **params: object) -> object:
    assert callable(func)
    return func(*args, **params)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_a_function_is_something_to_call(kind: str) -> None:
    func = create_executor(kind).evaluate(Function([X, Y], add(X, multiply(Y, Y))))
    assert numbers(result(func, ONE_TWO, ONE_TWO)) == numbers(result(func, ONE_TWO, y=ONE_TWO)) == [2, 6]


def test_without_an_expression_it_is_main_with_the_parameters_that_were_given() -> None:
    mod = IRModule.from_expr(Function([X, Y], add(X, Y)))
    assert numbers(result(create_executor(mod=mod).evaluate(), ONE_TWO, ONE_TWO)) == [2, 4]
    with_params = create_executor("debug", mod, None, "llvm", {"y": ONE_TWO})
    assert numbers(result(with_params.evaluate(), ONE_TWO)) == [2, 4]
    assert len(mod["main"].params) == 2


def test_an_expression_is_evaluated_at_once_among_the_functions_of_the_module() -> None:
    twice = GlobalVar("twice")
    mod = IRModule({twice: Function([X], add(X, X))})
    executor = create_executor(mod=mod)
    call: Expr = Call(twice, [X])
    assert numbers(executor.evaluate(call, {X: ONE_TWO})) == [2, 4]
    assert numbers(result(executor.evaluate(twice), ONE_TWO)) == [2, 4]


def test_tuples_are_tuples_of_arrays() -> None:
    made = create_executor().evaluate(Tuple([const(1), Tuple([const(2.5)])]))
    one, (two,) = cast("tuple[object, tuple[object]]", made)
    assert (numbers(one), numbers(two)) == (1, 2.5)


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(ValueError, match="there is no kind of executor 'debugg'; did you mean 'debug'"):
        create_executor("debugg")
    with pytest.raises(relay.EvaluationError, match="the function takes 1 arguments and was given none"):
        result(create_executor().evaluate(Function([X], X)))
