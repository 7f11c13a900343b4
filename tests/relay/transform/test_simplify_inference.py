"""SimplifyInference: training operators are expanded or dropped."""

import pytest

from apass.relay.expr import Expr, Tuple, TupleGetItem
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import var
from apass.relay.op import nn
from tests.helpers.relay.meaning import ops_of, optimized


def image(*shape: int) -> Expr:
    return var("x", shape=shape)


@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 3, 4, 4)), (3, (2, 4, 4, 3)), (-1, (5, 3)), (1, (5, 3))])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("center", [True, False])
def test_batch_normalization_is_expanded(axis: int, shape: tuple[int, ...], scale: bool, center: bool) -> None:
    gamma, beta, mean = (var(name, shape=(3,)) for name in ("gamma", "beta", "mean"))
    variance = call_op("exp", var("logvar", shape=(3,)))
    result = nn.batch_norm(image(*shape), gamma, beta, mean, variance, axis=axis, scale=scale, center=center)
    ops = ops_of(optimized(result[0], "SimplifyInference"))
    assert ("nn.batch_norm" in ops, ops[-2:]) == (
        False,
        ["expand_dims", "add"] if axis == 1 and len(shape) > 2 else ops[-2:],
    )


def test_batch_normalization_stays_when_statistics_are_used() -> None:
    gamma, beta, mean = (var(name, shape=(3,)) for name in ("gamma", "beta", "mean"))
    variance = call_op("exp", var("logvar", shape=(3,)))
    results = nn.batch_norm(image(2, 3, 4), gamma, beta, mean, variance).astuple()
    pair = Tuple([TupleGetItem(results, 0), TupleGetItem(results, 1)])
    assert "nn.batch_norm" in ops_of(optimized(pair, "SimplifyInference"))


def test_dropout_is_dropped() -> None:
    assert ops_of(optimized(nn.dropout(nn.relu(image(2, 3))), "SimplifyInference")) == ["nn.relu"]


@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_normalization_is_expanded(axis: int) -> None:
    result = nn.layer_norm(image(2, 5, 5), var("gamma", shape=(5,)), var("beta", shape=(5,)), axis=axis)
    assert "nn.layer_norm" not in ops_of(optimized(result, "SimplifyInference"))


def test_instance_normalization_is_expanded() -> None:
    result = nn.instance_norm(image(2, 3, 4, 4), var("gamma", shape=(3,)), var("beta", shape=(3,)))
    assert "nn.instance_norm" not in ops_of(optimized(result, "SimplifyInference"))


def test_group_normalization_is_expanded() -> None:
    result = nn.group_norm(image(2, 6, 4, 4), var("gamma", shape=(6,)), var("beta", shape=(6,)), num_groups=3)
    assert "nn.group_norm" not in ops_of(optimized(result, "SimplifyInference"))


def test_l2_normalization_is_expanded() -> None:
    result = nn.l2_normalize(image(2, 6, 4), eps=1e-3, axis=[1])
    assert "nn.l2_normalize" not in ops_of(optimized(result, "SimplifyInference"))
