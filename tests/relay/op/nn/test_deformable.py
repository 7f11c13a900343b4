"""Deformable convolution: plain loops, the plain convolution, and types."""

from itertools import product
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay.expr import Call
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
from tests.helpers.amounts import amount
from tests.helpers.relay.kernel_checks import Numbers, X, Y, Z, close, evaluated, inferred, numbers, refused


def sample(image: Numbers, row: float, column: float) -> float:
    """Return the image at a position between pixels.

    Outside of the image, the value is 0. Up to the border of the image, the last pixel is mixed with 0.
    """
    height, width = image.shape
    if not (0 <= row < height and 0 <= column < width):
        return 0.0
    top, left = floor(row), floor(column)
    total = 0.0
    for down, right in product((0, 1), (0, 1)):
        factor = (1 - abs(row - top - down)) * (1 - abs(column - left - right))
        if top + down < height and left + right < width:
            total += factor * float(image[top + down, left + right])
    return total


@settings(max_examples=amount(30))
@given(
    st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.integers(0, 1),
    st.integers(1, 2),
)
def test_deformable_convolution_agrees_with_plain_loops(
    group_counts: tuple[int, int], strides: tuple[int, int], padding: int, dilation: int
) -> None:
    groups, offset_groups = group_counts
    data, weight = numbers(2, 4, 5, 6), numbers(2, 4 // groups, 2, 3, seed=1)
    extents = (dilation + 1, 2 * dilation + 1)
    axes = zip((5, 6), extents, strides, strict=True)
    counts = [(length + 2 * padding - extent) // step + 1 for length, extent, step in axes]
    offset = numbers(2, 2 * 6 * offset_groups, *counts, seed=2)
    call = nn.deformable_conv2d(X, Y, Z, strides, padding, dilation, offset_groups, groups)
    out = evaluated(call, data, offset, weight)
    expected = np.zeros((2, 2, *counts))
    for n, o, y, x in product(*map(range, expected.shape)):
        for i, ky, kx in product(*map(range, weight.shape[1:])):
            channel = o // (2 // groups) * (4 // groups) + i
            pair = 2 * (channel // (4 // offset_groups) * 6 + 3 * ky + kx)
            row = y * strides[0] - padding + ky * dilation + float(offset[n, pair, y, x])
            column = x * strides[1] - padding + kx * dilation + float(offset[n, pair + 1, y, x])
            expected[n, o, y, x] += sample(data[n, channel], row, column) * float(weight[o, i, ky, kx])
    close(out, expected, 1e-4)


def test_last_row_is_mixed_with_zero() -> None:
    offset = np.zeros((1, 2, 2, 2), "float32")
    offset[:, 0] = 0.5
    call = nn.deformable_conv2d(X, Y, Z)
    out = evaluated(call, np.ones((1, 1, 2, 2), "float32"), offset, np.ones((1, 1, 1, 1), "float32"))
    assert out.tolist() == [[[[1, 1], [0.5, 0.5]]]]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_zero_offsets_give_the_plain_convolution(layout: str) -> None:
    data, weight = numbers(2, 4, 7, 8), numbers(6, 4, 3, 3)
    plain, other = parse_layout("NCHW"), parse_layout(layout)
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    inputs = (
        convert_array(data, plain, other),
        convert_array(np.zeros((2, 18, 7, 8), "float32"), plain, other),
        convert_array(weight, parse_layout("OIHW"), parse_layout(kernel)),
    )
    out = evaluated(nn.deformable_conv2d(X, Y, Z, padding=1, data_layout=layout, kernel_layout=kernel), *inputs)
    close(convert_array(out, other, plain), evaluated(nn.conv2d(X, Y, padding=1), data, weight))


def test_operand_types_follow_from_data_and_attributes() -> None:
    call = nn.deformable_conv2d(X, Y, Z, deformable_groups=2, channels=6, kernel_size=(3, 3), padding=1)
    types = inferred(call, TensorType((Any(), 4, 7, 8)), None, None)
    offset, weight = TensorType((Any(), 36, 7, 8)), TensorType((6, 4, 3, 3))
    assert types == [None, offset, weight, TensorType((Any(), 6, 7, 8))]
    assert inferred(call, None, offset, weight) is None
    assert inferred(nn.deformable_conv2d(X, Y, Z), TensorType((1, 4, 7, 8)), None, None) is None


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.deformable_conv2d(X, Y, Z),
            (TensorType((1, 4, 7, 8)), TensorType((9,), "int8"), TensorType((2, 4, 3, 3))),
            "nn.deformable_conv2d: the offsets must have the shape (1, 18, 5, 6), got Tensor[(9), int8]",
        ),
        (
            nn.deformable_conv2d(X, Y, Z, deformable_groups=3),
            (TensorType((1, 4, 7, 8)), None, TensorType((2, 4, 3, 3))),
            "nn.deformable_conv2d: the number of input channels must be a multiple of 3, got 4",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message
