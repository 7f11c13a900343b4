"""Layouts: parsing, and conversion of arrays and shapes in both directions."""

import re
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.relay.op.define.layout import convert_array, convert_shape, parse_layout
from apass.relay.ty import Any

LAYOUTS = st.sampled_from(
    ["".join(order) for order in permutations("NCHW")] + ["NCHW2c", "N2cCHW", "NC3h2cHW", "4nNCHW", "WHC2c3hN4n"]
)


@given(LAYOUTS, LAYOUTS)
def test_array_survives_a_round_trip(first: str, second: str) -> None:
    src, dst = parse_layout(first), parse_layout(second)
    array = convert_array(np.arange(8 * 4 * 6 * 2).reshape(8, 4, 6, 2), parse_layout("NCHW"), src)
    converted = convert_array(array, src, dst)
    np.testing.assert_array_equal(convert_array(converted, dst, src), array)
    assert converted.shape == convert_shape(array.shape, src, dst)


@given(LAYOUTS, LAYOUTS, LAYOUTS)
def test_conversion_by_a_third_layout_is_equal(first: str, second: str, third: str) -> None:
    src, via, dst = map(parse_layout, (first, second, third))
    array = convert_array(np.arange(8 * 4 * 6 * 2).reshape(8, 4, 6, 2), parse_layout("NCHW"), src)
    direct = convert_array(array, src, dst)
    np.testing.assert_array_equal(convert_array(convert_array(array, src, via), via, dst), direct)


def test_channel_is_split_into_block_and_offset() -> None:
    array = np.zeros((1, 16, 2, 2))
    array[0, 11, 1, 0] = 5
    blocks = convert_array(array, parse_layout("NCHW"), parse_layout("NCHW8c"))
    assert np.argwhere(blocks).tolist() == [[0, 1, 1, 0, 3]]


def test_block_of_one_is_a_dimension() -> None:
    assert convert_shape((6, 1, 3, 3), parse_layout("OIHW"), parse_layout("OIHW1i2o")) == (3, 1, 3, 3, 1, 2)


def test_symbolic_dimensions_stay_symbolic_except_blocks() -> None:
    src, dst = parse_layout("NCHW"), parse_layout("NHWC4c")
    assert convert_shape((Any(), Any(), 3, 4), src, dst) == (Any(), 3, 4, Any(), 4)
    assert convert_shape((1, 3, 4, Any(), 4), dst, src) == (1, Any(), 3, 4)


def test_layout_has_axes_and_factors() -> None:
    layout = parse_layout("NCHW8c")
    assert (str(layout), layout.primal, layout.rank) == ("NCHW8c", "NCHW", 5)
    assert (layout.factor("C"), layout.factor("H")) == (8, 1)
    assert (layout.index("C"), layout.index("c"), layout.index("D")) == (1, 4, -1)
    assert parse_layout("NCHW8c") is layout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a layout; expected axes and blocks with a size, such as NCHW or NCHW8c"),
        ("NCHWc", "'NCHWc' is not a layout; expected axes and blocks with a size, such as NCHW or NCHW8c"),
        ("NCHW0c", "'NCHW0c' is not a layout; expected axes and blocks with a size, such as NCHW or NCHW8c"),
        ("NCCHW", "layout 'NCCHW' contains an axis twice"),
        ("NCHW8c2c", "layout 'NCHW8c2c' contains an axis twice"),
        ("NHW8c", "layout 'NHW8c' has a block of C, but no axis C"),
    ],
)
def test_invalid_layout_text_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_layout(text)


@pytest.mark.parametrize(
    ("shape", "src", "dst", "message"),
    [
        ((1, 2, 3, 4), "NCHW", "NCDHW", "layout NCHW cannot be converted to NCDHW: they do not have the same axes"),
        ((1, 2, 3), "NCHW", "NHWC", "layout NCHW has 4 dimensions, but the tensor has 3"),
        ((1, 6, 3, 4), "NCHW", "NCHW4c", "axis C has size 6, not a multiple of the block size 4 of layout NCHW4c"),
        ((1, 2, 3, 4, 5), "NCHW4c", "NCHW", "layout NCHW4c has blocks of 4, but the tensor has blocks of 5"),
    ],
)
def test_shape_that_does_not_fit_layouts_is_rejected(shape: tuple[int, ...], src: str, dst: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        convert_shape(shape, parse_layout(src), parse_layout(dst))
