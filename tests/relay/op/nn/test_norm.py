"""Normalization: ONNX, definitions, and types."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apass.relay.expr import Call, Var
from apass.relay.op import nn
from apass.relay.ty import Any, TensorType, TupleType
from tests.helpers.amounts import amount
from tests.helpers.relay.kernel_checks import (
    Numbers,
    X,
    Y,
    Z,
    close,
    evaluated,
    evaluated_fields,
    inferred,
    numbers,
    onnx_outputs,
    refused,
    same,
)

SHAPES = hnp.array_shapes(min_dims=2, max_dims=4, max_side=4)
MEAN, VARIANCE = Var("mean"), Var("variance")


def along(vector: Numbers, rank: int, axis: int) -> Numbers:
    """Return a vector reshaped to broadcast along an axis."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


@settings(max_examples=amount(50))
@given(SHAPES, st.data(), st.booleans(), st.booleans(), st.sampled_from(["float16", "float32", "float64"]))
def test_batch_norm_uses_the_moving_mean_and_variance(
    shape: tuple[int, ...], data: st.DataObject, center: bool, scale: bool, dtype: str
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = numbers(*shape, dtype=dtype)
    gamma, beta, mean = (numbers(shape[axis], dtype=dtype, seed=seed) for seed in (1, 2, 3))
    variance = np.abs(numbers(shape[axis], dtype=dtype, seed=4)) + np.asarray(0.5, dtype)
    call = nn.batch_norm(X, Y, Z, MEAN, VARIANCE, axis, 1e-3, center, scale)
    out, mean_out, variance_out = evaluated_fields(call, array, gamma, beta, mean, variance)
    wide = [along(vector.astype("float64"), len(shape), axis) for vector in (gamma, beta, mean, variance)]
    expected = (array - wide[2]) / np.sqrt(wide[3] + 1e-3) * (wide[0] if scale else 1) + (wide[1] if center else 0)
    close(out, expected, 3e-2 if dtype == "float16" else 1e-4)
    same(mean_out, mean)
    same(variance_out, variance)


def test_batch_norm_agrees_with_onnx() -> None:
    array, gamma, beta, mean = numbers(2, 3, 4, 5), numbers(3, seed=1), numbers(3, seed=2), numbers(3, seed=3)
    variance = np.abs(numbers(3, seed=4)) + np.float32(0.1)
    (expected,) = onnx_outputs("BatchNormalization", (array, gamma, beta, mean, variance), epsilon=1e-4)
    fields = evaluated_fields(nn.batch_norm(X, Y, Z, MEAN, VARIANCE, epsilon=1e-4), array, gamma, beta, mean, variance)
    close(fields[0], expected, 1e-4)


def test_batch_norm_result_unpacks_into_three_fields() -> None:
    wrapper = nn.batch_norm(X, Y, Z, MEAN, VARIANCE)
    assert [field.index for field in wrapper] == [0, 1, 2]
    assert all(field.tuple_value is wrapper.astuple() for field in wrapper)


def test_vector_types_follow_from_the_data() -> None:
    data = TensorType((Any(), 4, 4, 8), "float16")
    vector = TensorType((8,), "float16")
    call = nn.batch_norm(X, Y, Z, MEAN, VARIANCE, axis=3)
    result = TupleType([data, vector, vector])
    assert inferred(call, data, None, None, None, None) == [None, vector, vector, vector, vector, result]
    for norm in (nn.layer_norm(X, Y, Z), nn.instance_norm(X, Y, Z, 3), nn.group_norm(X, Y, Z, 2, 3)):
        assert inferred(norm, data, None, None) == [None, vector, vector, data]
        assert inferred(norm, None, vector, vector) is None


@given(SHAPES, st.data(), st.booleans(), st.booleans())
def test_layer_norm_normalizes_along_an_axis(
    shape: tuple[int, ...], data: st.DataObject, center: bool, scale: bool
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array, gamma, beta = numbers(*shape), numbers(shape[axis], seed=1), numbers(shape[axis], seed=2)
    out = evaluated(nn.layer_norm(X, Y, Z, axis, 1e-2, center, scale), array, gamma, beta)
    expected = (array - array.mean(axis, keepdims=True)) / np.sqrt(array.var(axis, keepdims=True) + 1e-2)
    expected = expected * (along(gamma, len(shape), axis) if scale else 1)
    close(out, expected + (along(beta, len(shape), axis) if center else 0), 1e-4)


@given(hnp.array_shapes(min_dims=3, max_dims=4, max_side=4))
def test_instance_norm_agrees_with_onnx(shape: tuple[int, ...]) -> None:
    inputs = numbers(*shape), numbers(shape[1], seed=1), numbers(shape[1], seed=2)
    (expected,) = onnx_outputs("InstanceNormalization", inputs, epsilon=1e-2)
    close(evaluated(nn.instance_norm(X, Y, Z, epsilon=1e-2), *inputs), expected, 1e-4)


def test_instance_norm_accepts_channels_as_the_last_axis() -> None:
    array, gamma, beta = numbers(2, 3, 4, 5), numbers(3, seed=1), numbers(3, seed=2)
    first = evaluated(nn.instance_norm(X, Y, Z), array, gamma, beta)
    last = evaluated(nn.instance_norm(X, Y, Z, -1), np.moveaxis(array, 1, -1), gamma, beta)
    close(np.moveaxis(last, -1, 1), first)


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3), hnp.array_shapes(max_dims=2, max_side=4))
def test_group_norm_agrees_with_onnx(batch: int, groups: int, group_channels: int, rest: tuple[int, ...]) -> None:
    channels = groups * group_channels
    inputs = numbers(batch, channels, *rest), numbers(channels, seed=1), numbers(channels, seed=2)
    (expected,) = onnx_outputs("GroupNormalization", inputs, num_groups=groups, epsilon=1e-2)
    close(evaluated(nn.group_norm(X, Y, Z, groups, epsilon=1e-2), *inputs), expected, 1e-4)


@given(st.integers(1, 7), st.integers(1, 8))
def test_lrn_agrees_with_its_definition(channels: int, size: int) -> None:
    data = numbers(2, channels, 3, 2)
    total = np.zeros_like(data)
    for channel in range(channels):
        near = data[:, max(0, channel - size // 2) : channel - size // 2 + size]
        total[:, channel] = (near**2).sum(1)
    expected = data / (1.5 + 0.1 / size * total) ** 0.6
    close(evaluated(nn.lrn(X, size, 1, 1.5, 0.1, 0.6), data), expected, 1e-4)
    last = evaluated(nn.lrn(X, size, -1, 1.5, 0.1, 0.6), np.moveaxis(data, 1, -1))
    close(np.moveaxis(last, -1, 1), expected, 1e-4)


@given(SHAPES, st.data())
def test_l2_normalize_agrees_with_its_definition(shape: tuple[int, ...], data: st.DataObject) -> None:
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    array = numbers(*shape)
    norm = np.sqrt(np.maximum((array**2).sum(axes, keepdims=True), 0.5))
    close(evaluated(nn.l2_normalize(X, 0.5, axes), array), array / norm)
    whole = np.sqrt(max((array**2).sum(), 0.5))
    close(evaluated(nn.l2_normalize(X, 0.5), array), array / whole)


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.layer_norm(X, Y, Z),
            (TensorType((2, 3)), TensorType((2,)), None),
            "nn.layer_norm: gamma must have the shape (3,), got Tensor[(2), float32]",
        ),
        (
            nn.group_norm(X, Y, Z, 2),
            (TensorType((2, 3)), None, None),
            "nn.group_norm: the number of channels must be a multiple of 2, got 3",
        ),
        (
            nn.group_norm(X, Y, Z, 0),
            (TensorType((2, 3)), None, None),
            "nn.group_norm: num_groups must be positive, got 0",
        ),
        (nn.lrn(X, 0), (TensorType((2, 3)),), "nn.lrn: size must be at least 1, got 0"),
        (
            nn.l2_normalize(X, 1.0, [2]),
            (TensorType((2, 3)),),
            "nn.l2_normalize: Tensor[(2, 3), float32]: axis 2 is out of range for 2 dimensions; expected -2 to 1",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message


def test_batch_norm_error_names_the_vector() -> None:
    types = (TensorType((2, 3)), TensorType((3,)), TensorType((3,)), TensorType((4,)), None)
    message = "nn.batch_norm: moving_mean must have the shape (3,), got Tensor[(4), float32]"
    assert refused(nn.batch_norm(X, Y, Z, MEAN, VARIANCE), *types) == message
