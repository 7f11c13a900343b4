"""convert: programs and parameters after weights of nn.dense are transposed."""

import numpy as np
import pytest

from apass import relay
from apass.relay.data_dep_optimization.simplify_fc_transpose import convert
from apass.relay.expr import Expr, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import var
from apass.relay.ir.ndarray import Array
from apass.relay.op.nn.dense.dense import dense
from apass.relay.op.shape.axes import transpose

X, W = var("x", shape=(2, 4)), var("w", shape=(4, 5))


def weights() -> dict[str, Array]:
    return {"w": np.arange(20, dtype="float32").reshape(4, 5)}


def test_program_and_parameters_are_converted() -> None:
    params, x = weights(), np.ones((2, 4), "float32")
    func, converted = convert(Function([X, W], dense(X, transpose(W, [1, 0]))), params)
    assert converted is params
    assert list(params) == ["w.T"]
    assert params["w.T"].shape == (5, 4)
    assert isinstance(func, Function)
    bound = relay.bind_params_by_name(func, params)
    np.testing.assert_array_equal(np.asarray(evaluate(bound, x)), x @ weights()["w"])


def test_weight_with_other_users_stays_in_parameters() -> None:
    func, params = convert(Function([X, W], Tuple([dense(X, transpose(W)), W])), weights())
    assert list(params) == ["w", "w.T"]
    assert isinstance(func, Function)


def test_expression_stays_an_expression() -> None:
    expr, params = convert(dense(X, transpose(W)), weights())
    assert not isinstance(expr, Function)
    assert list(params) == ["w.T"]


@pytest.mark.parametrize("func", [Function([X, W], dense(X, transpose(W)))])
def test_missing_weight_is_an_error(func: Expr) -> None:
    params: dict[str, Array] = {"other": np.zeros(1)}
    with pytest.raises(KeyError, match="params has no entry for the weights w, which"):
        convert(func, params)
    assert list(params) == ["other"]
