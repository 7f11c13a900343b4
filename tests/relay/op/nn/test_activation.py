"""Activations, bias, softmax, dropout and flattening: definitions and types."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apass.relay.expr import Call, TupleGetItem
from apass.relay.op import nn
from apass.relay.ty import Any, TensorType, TupleType
from tests.helpers.relay.kernel_checks import (
    X,
    Y,
    call_of,
    close,
    evaluated,
    evaluated_fields,
    inferred,
    numbers,
    onnx_outputs,
    refused,
    same,
)

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=4)
FLOATS = st.sampled_from(["float16", "float32", "float64"])


@given(SHAPES, st.sampled_from(["float16", "float32", "int8", "int32"]))
def test_relu_keeps_positive_elements(shape: tuple[int, ...], dtype: str) -> None:
    data = numbers(*shape, dtype=dtype)
    same(evaluated(nn.relu(X), data), np.where(data > 0, data, 0))


@given(SHAPES, FLOATS, st.sampled_from([0.0, 0.1, 0.5]))
def test_leaky_relu_scales_negative_elements(shape: tuple[int, ...], dtype: str, alpha: float) -> None:
    data = numbers(*shape, dtype=dtype)
    close(evaluated(nn.leaky_relu(X, alpha), data), np.where(data > 0, data, alpha * data), 1e-3)


@given(SHAPES, st.data())
def test_prelu_scales_negative_elements_by_channel(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array, alpha = numbers(*shape), numbers(shape[axis], seed=1)
    expected = np.moveaxis(array, axis, -1).copy()
    expected = np.moveaxis(np.where(expected > 0, expected, alpha * expected), -1, axis)
    close(evaluated(nn.prelu(X, Y, axis), array, alpha), expected)


@given(SHAPES, st.data())
def test_bias_is_added_along_an_axis(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array, bias = numbers(*shape), numbers(shape[axis], seed=1)
    close(evaluated(nn.bias_add(X, Y, axis), array, bias), np.moveaxis(np.moveaxis(array, axis, -1) + bias, -1, axis))


@given(SHAPES, st.data(), FLOATS)
def test_softmax_agrees_with_onnx(shape: tuple[int, ...], data: st.DataObject, dtype: str) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    array = 10 * numbers(*shape, dtype=dtype)
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    for call in (nn.softmax(X, axis), nn.fast_softmax(X, axis)):
        close(evaluated(call, array), onnx_outputs("Softmax", (array,), axis=axis)[0], tolerance)
    wide = array.astype("float64")
    expected = wide - np.log(np.exp(wide).sum(axis, keepdims=True))
    close(evaluated(nn.log_softmax(X, axis), array), expected, tolerance)


def test_softmax_does_not_overflow() -> None:
    data = np.array([[1e4, 1e4, -1e4]], "float32")
    close(evaluated(nn.softmax(X), data), [[0.5, 0.5, 0.0]])
    close(evaluated(nn.log_softmax(X), data), [[-np.log(2), -np.log(2), -2e4 - np.log(2)]])


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax])
def test_softmax_of_empty_data_is_empty(function: Callable[..., Call]) -> None:
    for shape in ((3, 0), (0, 3)):
        assert evaluated(function(X), numbers(*shape)).shape == shape


def test_dropout_at_inference_keeps_the_data() -> None:
    data = numbers(2, 3)
    out, mask = evaluated_fields(nn.dropout_raw(X, 0.3), data)
    same(out, data)
    same(mask, np.ones((2, 3), "float32"))


def test_dropout_is_the_first_field_of_dropout_raw() -> None:
    field = nn.dropout(X, 0.3)
    assert isinstance(field, TupleGetItem)
    assert field.index == 0
    call = call_of(field)
    assert call.attrs is not None
    assert call.attrs["rate"] == 0.3
    assert inferred(field, TensorType((2, Any()))) == [
        None,
        TupleType([TensorType((2, Any())), TensorType((2, Any()))]),
    ]


@given(hnp.array_shapes(min_dims=1, max_dims=5, max_side=4))
def test_batch_flatten_keeps_the_first_dimension(shape: tuple[int, ...]) -> None:
    data = numbers(*shape)
    same(evaluated(nn.batch_flatten(X), data), data.reshape(shape[0], -1))


def test_batch_flatten_accepts_an_empty_batch() -> None:
    assert evaluated(nn.batch_flatten(X), np.zeros((0, 2, 3))).shape == (0, 6)


def test_vector_types_follow_from_the_data() -> None:
    data = TensorType((2, 3, Any()), "float16")
    assert inferred(nn.bias_add(X, Y), data, None) == [None, TensorType((3,), "float16"), data]
    seven = TensorType((7,), "float16")
    assert inferred(nn.bias_add(X, Y, -1), data, seven) == [None, seven, data]
    assert inferred(nn.prelu(X, Y, 0), data, None) == [None, TensorType((2,), "float16"), data]


def test_symbolic_dimensions_stay_symbolic() -> None:
    assert inferred(nn.batch_flatten(X), TensorType((Any(), 3, 4))) == [None, TensorType((Any(), 12))]
    assert inferred(nn.batch_flatten(X), TensorType((2, 3, Any()))) == [None, TensorType((2, Any()))]
    assert inferred(nn.softmax(X), TensorType((2, Any()))) == [TensorType((2, Any())), TensorType((2, Any()))]


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.bias_add(X, Y),
            (TensorType((2, 3)), TensorType((4,))),
            "nn.bias_add: the bias must have the shape (3,), got Tensor[(4), float32]",
        ),
        (
            nn.bias_add(X, Y),
            (TensorType((2, 3)), TensorType((3,), "int8")),
            "nn.bias_add: the bias must have the element type of the data, float32, got Tensor[(3), int8]; cast it",
        ),
        (
            nn.bias_add(X, Y, 2),
            (TensorType((2, 3)), None),
            "nn.bias_add: Tensor[(2, 3), float32]: axis 2 is out of range for 2 dimensions; expected -2 to 1",
        ),
        (
            nn.softmax(X, 1),
            (TensorType((2,)),),
            "nn.softmax: Tensor[(2), float32]: axis 1 is out of range for 1 dimensions; expected -1 to 0",
        ),
        (
            nn.prelu(X, Y),
            (TensorType((2, 3)), TensorType((1, 3))),
            "nn.prelu: alpha must have the shape (3,), got Tensor[(1, 3), float32]",
        ),
        (
            nn.batch_flatten(X),
            (TensorType(()),),
            "nn.batch_flatten: the data must have a batch dimension, got the scalar float32",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message
