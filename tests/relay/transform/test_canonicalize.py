"""CanonicalizeOps, CanonicalizeCast and FastMath: their rewrites keep the meaning."""

import pytest

from apass.relay.expr import Expr, Tuple
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import var
from apass.relay.op import nn
from tests.helpers.relay.meaning import ops_of, optimized


@pytest.mark.parametrize(("axis", "expands"), [(1, True), (-1, False), (3, False), (2, True)])
def test_bias_add_expands_bias_along_axis(axis: int, expands: bool) -> None:
    biased = nn.bias_add(var("x", shape=(2, 3, 3, 3)), var("b", shape=(3,)), axis=axis)
    assert ops_of(optimized(biased, "CanonicalizeOps")) == [*["expand_dims"] * expands, "add"]


def shared_cast(dtype: str) -> Expr:
    cast = call_op("cast", var("x", shape=(2, 3), dtype="float32"), dtype=dtype)
    return Tuple([call_op("negative", cast), call_op("exp", cast)])


def test_widening_cast_is_copied_for_each_user() -> None:
    assert ops_of(optimized(shared_cast("float64"), "CanonicalizeCast")) == ["cast", "negative", "cast", "exp"]


def test_narrowing_cast_stays_shared() -> None:
    assert ops_of(optimized(shared_cast("float16"), "CanonicalizeCast")) == ["cast", "negative", "exp"]


@pytest.mark.parametrize("name", ["exp", "erf", "tanh"])
def test_fast_math_approximates_elementwise_functions(name: str) -> None:
    assert ops_of(optimized(call_op(name, var("x", shape=(50,))), "FastMath")) == [f"fast_{name}"]


def test_fast_math_approximates_softmax() -> None:
    assert ops_of(optimized(nn.softmax(var("x", shape=(5, 9))), "FastMath")) == ["nn.fast_softmax"]
