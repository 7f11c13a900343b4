"""Dimensions that are added, dropped and reordered."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.make import const
from apass.relay.ty import Any
from tests.relay.op.values import refusal, result_type, tensor, value

_DATA = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("axis", "count", "shape"),
    [(0, 1, (1, 2, 3, 4)), (3, 1, (2, 3, 4, 1)), (-1, 1, (2, 3, 4, 1)), (-4, 1, (1, 2, 3, 4)), (1, 2, (2, 1, 1, 3, 4))],
)
def test_expand_dims_puts_ones_in(axis: int, count: int, shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(value(op.expand_dims(const(_DATA), axis, count)), _DATA.reshape(shape))


def test_expand_dims_refuses_an_axis_that_is_not_there() -> None:
    assert refusal(op.expand_dims(tensor(2), 2)) == "expand_dims: axis is 2; for 1 dimensions give one from -2 to 1"
    assert refusal(op.expand_dims(tensor(2), 0, -1)) == "expand_dims: num_newaxis is -1; it must not be negative"


def test_squeeze_drops_ones() -> None:
    assert result_type(op.squeeze(tensor(1, 2, 1))) == "Tensor[(2), float32]"
    assert result_type(op.squeeze(tensor(1, 2, 1), [-1])) == "Tensor[(1, 2), float32]"
    assert result_type(op.squeeze(tensor(1, Any()), 0)) == "Tensor[(?), float32]"
    assert result_type(op.squeeze(tensor(2, Any()), [1])) == "Tensor[(2), float32]"
    assert value(op.squeeze(const(_DATA.reshape(2, 1, 12)), [1])).shape == (2, 12)


def test_squeeze_refuses_what_is_not_1() -> None:
    message = "squeeze: the axes (0,) of (2, 1) are not all 1; only such can be squeezed"
    assert refusal(op.squeeze(tensor(2, 1), [0])) == message
    assert "axis must be given" in refusal(op.squeeze(tensor(Any(), 1)))
    assert refusal(op.squeeze(tensor(1, 1), [0, -2])) == "squeeze: the axes (0, 0) name one twice"


def test_transpose_reorders_and_reverses_by_default() -> None:
    np.testing.assert_array_equal(value(op.transpose(const(_DATA))), _DATA.transpose())
    np.testing.assert_array_equal(value(op.transpose(const(_DATA), (1, -1, 0))), _DATA.transpose(1, 2, 0))


def test_transpose_refuses_what_is_no_order() -> None:
    message = "transpose: axes must name each of the 2 dimensions once, but are (0, 0)"
    assert refusal(op.transpose(tensor(2, 3), (0, 0))) == message
    assert refusal(op.transpose(tensor(2, 3), (0, 2))) == (
        "transpose: there is no axis 2 among 2 dimensions; give one from -2 to 1"
    )


def test_reverse() -> None:
    np.testing.assert_array_equal(value(op.reverse(const(_DATA), 1)), _DATA[:, ::-1])


def test_layout_transform_reorders_and_splits() -> None:
    data = np.arange(2 * 8 * 3 * 1).reshape(2, 8, 3, 1)
    made = value(op.layout_transform(const(data), "NCHW", "NHWC"))
    np.testing.assert_array_equal(made, data.transpose(0, 2, 3, 1))
    split = value(op.layout_transform(const(data), "NCHW", "NCHW4c"))
    np.testing.assert_array_equal(split, data.reshape(2, 2, 4, 3, 1).transpose(0, 1, 3, 4, 2))
    np.testing.assert_array_equal(value(op.layout_transform(const(split), "NCHW4c", "NCHW")), data)


def test_layout_transform_refuses_layouts_of_other_axes() -> None:
    message = "layout_transform: layout NCHW cannot be converted to OIHW: they do not have the same axes"
    assert refusal(op.layout_transform(tensor(1, 2, 3, 4), "NCHW", "OIHW")) == message
