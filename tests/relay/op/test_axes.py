"""Dimensions that are inserted, removed and reordered."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.ty import Any
from tests.relay.op.values import refusal, result_type, tensor, value

_DATA = np.arange(24, dtype="float32").reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("axis", "count", "shape"),
    [(0, 1, (1, 2, 3, 4)), (3, 1, (2, 3, 4, 1)), (-1, 1, (2, 3, 4, 1)), (-4, 1, (1, 2, 3, 4)), (1, 2, (2, 1, 1, 3, 4))],
)
def test_expand_dims_inserts_dimensions_of_size_1(axis: int, count: int, shape: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(value(op.expand_dims(const(_DATA), axis, count)), _DATA.reshape(shape))


def test_expand_dims_rejects_axes_out_of_range() -> None:
    message = "expand_dims: axis 2 is out of range for 1 dimensions; expected -2 to 1"
    assert refusal(op.expand_dims(tensor(2), 2)) == message
    assert refusal(op.expand_dims(tensor(2), 0, -1)) == "expand_dims: num_newaxis must be 0 or more, got -1"


def test_squeeze_removes_dimensions_of_size_1() -> None:
    assert result_type(op.squeeze(tensor(1, 2, 1))) == "Tensor[(2), float32]"
    assert result_type(op.squeeze(tensor(1, 2, 1), [-1])) == "Tensor[(1, 2), float32]"
    assert result_type(op.squeeze(tensor(1, Any()), 0)) == "Tensor[(?), float32]"
    assert result_type(op.squeeze(tensor(2, Any()), [1])) == "Tensor[(2), float32]"
    assert value(op.squeeze(const(_DATA.reshape(2, 1, 12)), [1])).shape == (2, 12)


def test_squeeze_rejects_axes_of_other_sizes() -> None:
    message = "squeeze: only axes of size 1 can be squeezed, got axes (0,) of (2, 1)"
    assert refusal(op.squeeze(tensor(2, 1), [0])) == message
    assert "axis is required" in refusal(op.squeeze(tensor(Any(), 1)))
    message = "squeeze: the axes (0, 0) contain a duplicate; list each axis once"
    assert refusal(op.squeeze(tensor(1, 1), [0, -2])) == message


def test_transpose_reorders_or_reverses_dimensions() -> None:
    np.testing.assert_array_equal(value(op.transpose(const(_DATA))), _DATA.transpose())
    np.testing.assert_array_equal(value(op.transpose(const(_DATA), (1, -1, 0))), _DATA.transpose(1, 2, 0))


def test_transpose_rejects_axes_that_are_no_permutation() -> None:
    message = "transpose: axes must name each of the 2 dimensions once, got (0, 0)"
    assert refusal(op.transpose(tensor(2, 3), (0, 0))) == message
    assert refusal(op.transpose(tensor(2, 3), (0, 2))) == (
        "transpose: axis 2 is out of range for 2 dimensions; expected -2 to 1"
    )


def test_reverse_flips_one_axis() -> None:
    np.testing.assert_array_equal(value(op.reverse(const(_DATA), 1)), _DATA[:, ::-1])


def test_layout_transform_reorders_and_splits_axes() -> None:
    data = np.arange(2 * 8 * 3 * 1).reshape(2, 8, 3, 1)
    result = value(op.layout_transform(const(data), "NCHW", "NHWC"))
    np.testing.assert_array_equal(result, data.transpose(0, 2, 3, 1))
    split = value(op.layout_transform(const(data), "NCHW", "NCHW4c"))
    np.testing.assert_array_equal(split, data.reshape(2, 2, 4, 3, 1).transpose(0, 1, 3, 4, 2))
    np.testing.assert_array_equal(value(op.layout_transform(const(split), "NCHW4c", "NCHW")), data)


def test_layout_transform_rejects_layouts_of_other_axes() -> None:
    message = "layout_transform: layout NCHW cannot be converted to OIHW: they do not have the same axes"
    assert refusal(op.layout_transform(tensor(1, 2, 3, 4), "NCHW", "OIHW")) == message
