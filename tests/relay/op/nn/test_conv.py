"""Convolutions: plain loops, ONNX, all layouts, and types."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any as Untyped

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass.relay.expr import Call
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType, TupleType
from tests.helpers.amounts import amount
from tests.helpers.relay.kernel_checks import (
    X,
    Y,
    close,
    evaluated,
    inferred,
    numbers,
    onnx_outputs,
    refused,
    same,
)

CONVS = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}


@dataclass(frozen=True, slots=True)
class Problem:
    """A small convolution."""

    data: tuple[int, ...]
    weight: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.strides)

    def call(self, **options: Untyped) -> Call:
        """Return the call of the convolution."""
        return CONVS[self.rank](X, Y, self.strides, self.padding, self.dilation, self.groups, **options)


@st.composite
def problems(draw: st.DrawFn, ranks: Sequence[int] = (1, 2, 3), channels: Sequence[int] = (1, 2)) -> Problem:
    """Draw a small convolution with any groups, strides, dilation and padding."""
    rank = draw(st.sampled_from(ranks))
    groups = draw(st.sampled_from([1, 1, 2, 3]))

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    window, dilation = each(1, 3), each(1, 2)
    lengths = [(size - 1) * gap + 1 + draw(st.integers(0, 3)) for size, gap in zip(window, dilation, strict=True)]
    group_channels, filters = draw(st.sampled_from(channels)), draw(st.sampled_from(channels))
    data = (draw(st.integers(1, 2)), group_channels * groups, *lengths)
    weight = (filters * groups, group_channels, *window)
    return Problem(data, weight, each(1, 2), each(0, 2, 2 * rank), dilation, groups)


def by_loops(problem: Problem, data: Array, weight: Array) -> Array:
    """Return the convolution of NC... with OI..., computed one product at a time."""
    rank = problem.rank
    sides = [(problem.padding[axis], problem.padding[axis + rank]) for axis in range(rank)]
    padded = np.pad(data, np.array([(0, 0), (0, 0), *sides])).astype("float64")
    extents = [(size - 1) * gap for size, gap in zip(weight.shape[2:], problem.dilation, strict=True)]
    counts = [(padded.shape[axis + 2] - extents[axis] - 1) // problem.strides[axis] + 1 for axis in range(rank)]
    out = np.zeros((data.shape[0], weight.shape[0], *counts))
    group_channels, filters = weight.shape[1], weight.shape[0] // problem.groups
    for n, o, *position in product(*map(range, out.shape)):
        for i, *tap in product(*map(range, weight.shape[1:])):
            steps = zip(position, problem.strides, tap, problem.dilation, strict=True)
            source = [index * stride + element * gap for index, stride, element, gap in steps]
            term = padded[(n, o // filters * group_channels + i, *source)] * weight[(o, i, *tap)].item()
            out[(n, o, *position)] += term
    return out


@settings(max_examples=amount(80))
@given(problems(), st.sampled_from(["float32", "float64", "int32", "float16"]))
def test_convolution_agrees_with_plain_loops(problem: Problem, dtype: str) -> None:
    data, weight = numbers(*problem.data, dtype=dtype), numbers(*problem.weight, dtype=dtype)
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    out = evaluated(problem.call(), data, weight)
    close(out, by_loops(problem, data, weight), tolerance)


@given(
    problems(ranks=[2], channels=[2, 4]),
    st.sampled_from(["NCHW", "NHWC", "HWCN", "NCHW2c", "NHW1cC", "CHWN"]),
    st.sampled_from(["OIHW", "HWIO", "HWOI", "OHWI", "OIHW2o", "OIHW2i2o", "IHWO1i2o"]),
    st.sampled_from(["", "NCHW", "NHWC", "NCHW2c"]),
)
def test_layout_changes_only_the_order_of_elements(
    problem: Problem, data_layout: str, kernel_layout: str, out_layout: str
) -> None:
    data, weight = numbers(*problem.data), numbers(*problem.weight)
    plain = parse_layout("NCHW")
    converted = problem.call(data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout)
    inputs = (
        convert_array(data, plain, parse_layout(data_layout)),
        convert_array(weight, parse_layout("OIHW"), parse_layout(kernel_layout)),
    )
    expected = convert_array(evaluated(problem.call(), data, weight), plain, parse_layout(out_layout or data_layout))
    close(evaluated(converted, *inputs), expected)


@pytest.mark.parametrize(
    ("data", "weight", "groups", "strides", "padding", "dilation"),
    [
        ((2, 16, 20, 21), (8, 16, 3, 3), 1, (1, 1), (1, 1, 1, 1), (1, 1)),
        ((1, 16, 20, 21), (32, 1, 3, 3), 16, (2, 1), (0, 1, 2, 1), (1, 1)),
        ((1, 12, 17, 17), (9, 4, 3, 5), 3, (2, 2), (2, 2, 2, 2), (2, 1)),
        ((1, 32, 14, 14), (16, 32, 1, 1), 1, (1, 1), (0, 0, 0, 0), (1, 1)),
        ((1, 3, 64, 64), (8, 3, 7, 7), 1, (2, 2), (3, 3, 3, 3), (1, 1)),
    ],
)
def test_conv2d_agrees_with_onnx(
    data: tuple[int, ...],
    weight: tuple[int, ...],
    groups: int,
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> None:
    inputs = numbers(*data), numbers(*weight)
    out = evaluated(nn.conv2d(X, Y, strides, padding, dilation, groups), *inputs)
    (expected,) = onnx_outputs("Conv", inputs, group=groups, strides=strides, pads=padding, dilations=dilation)
    close(out, expected, 1e-4)


def test_depthwise_weight_accepts_a_channel_multiplier() -> None:
    data, weight = numbers(1, 3, 5, 5), numbers(3, 2, 3, 3)
    multiplied = evaluated(nn.conv2d(X, Y, groups=3), data, weight)
    same(multiplied, evaluated(nn.conv2d(X, Y, groups=3), data, weight.reshape(6, 1, 3, 3)))


@pytest.mark.slow
def test_large_images_are_convolved_in_blocks() -> None:
    data, weight = numbers(1, 64, 110, 110), numbers(4, 64, 5, 5)
    out = evaluated(nn.conv2d(X, Y, padding=2), data, weight)
    (expected,) = onnx_outputs("Conv", (data, weight), pads=(2, 2, 2, 2))
    close(out, expected, 1e-3)


def test_product_has_the_requested_element_type() -> None:
    data, weight = np.full((1, 300, 1, 1), 100, "int8"), np.full((1, 300, 1, 1), 100, "int8")
    out = evaluated(nn.conv2d(X, Y, out_dtype="int32"), data, weight)
    assert out.dtype == "int32"
    assert out.item() == 3_000_000


def test_weight_type_follows_from_data_and_attributes() -> None:
    call = nn.conv2d(X, Y, channels=16, kernel_size=(3, 5), padding=(1, 2), kernel_layout="HWIO")
    data = TensorType((1, 8, 32, 32), "float16")
    assert inferred(call, data, None) == [
        None,
        TensorType((3, 5, 8, 16), "float16"),
        TensorType((1, 16, 32, 32), "float16"),
    ]
    grouped = nn.conv1d(X, Y, channels=6, kernel_size=3, groups=2)
    assert inferred(grouped, TensorType((1, 4, 9)), None) == [None, TensorType((6, 2, 3)), TensorType((1, 6, 7))]


def test_convolution_waits_for_data_and_weight_types() -> None:
    assert inferred(nn.conv2d(X, Y), None, TensorType((1, 1, 1, 1))) is None
    assert inferred(nn.conv2d(X, Y), TensorType((1, 1, 1, 1)), None) is None
    assert inferred(nn.conv2d(X, Y, channels=2), TensorType((1, 1, 1, 1)), None) is None


def test_symbolic_dimensions_stay_symbolic() -> None:
    data = TensorType((Any(), 3, Any(), 224))
    call = nn.conv2d(X, Y, strides=2, padding=3, channels=64, kernel_size=7)
    assert inferred(call, data, None) == [None, TensorType((64, 3, 7, 7)), TensorType((Any(), 64, Any(), 112))]
    loose = nn.conv2d(X, Y)
    weight = TensorType((Any(), 3, 7, 7))
    assert inferred(loose, data, weight) == [None, weight, TensorType((Any(), Any(), Any(), 218))]
    channels = TensorType((1, Any(), 9, 9))
    assert inferred(loose, channels, TensorType((4, 3, 3, 3))) == [
        None,
        TensorType((4, 3, 3, 3)),
        TensorType((1, 4, 7, 7)),
    ]


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.conv2d(X, Y),
            (TensorType((1, 3, 8, 8)), TensorType((4, 5, 3, 3))),
            "nn.conv2d: the weight must have the shape (4, 3, 3, 3), got Tensor[(4, 5, 3, 3), float32]",
        ),
        (
            nn.conv2d(X, Y, channels=8),
            (TensorType((1, 3, 8, 8)), TensorType((4, 3, 3, 3))),
            "nn.conv2d: the weight must have the shape (8, 3, 3, 3), got Tensor[(4, 3, 3, 3), float32]",
        ),
        (
            nn.conv2d(X, Y, groups=2),
            (TensorType((1, 3, 8, 8)), TensorType((4, 3, 3, 3))),
            "nn.conv2d: the number of input channels must be a multiple of 2, got 3",
        ),
        (
            nn.conv2d(X, Y),
            (TensorType((1, 3, 8)), TensorType((4, 3, 3, 3))),
            "nn.conv2d: the data of shape (1, 3, 8): layout NCHW has 4 dimensions, but the tensor has 3",
        ),
        (
            nn.conv2d(X, Y, data_layout="NCDHW"),
            (TensorType((1, 3, 8, 8)), None),
            "nn.conv2d: data_layout must have the axes of NCHW, got NCDHW; reorder or split the axes of NCHW",
        ),
        (
            nn.conv2d(X, Y, data_layout="NCH8"),
            (TensorType((1, 3, 8, 8)), None),
            (
                "nn.conv2d: data_layout: 'NCH8' is not a layout; "
                "expected axes and blocks with a size, such as NCHW or NCHW8c"
            ),
        ),
        (
            nn.conv2d(X, Y),
            (TensorType((1, 3, 2, 8)), TensorType((4, 3, 3, 3))),
            "nn.conv2d: a window of extent 3 does not fit into a dimension of 2 with padding (0, 0)",
        ),
        (
            nn.conv2d(X, Y, strides=0),
            (TensorType((1, 3, 8, 8)), TensorType((4, 3, 3, 3))),
            "nn.conv2d: strides must be positive, got 0",
        ),
        (
            nn.conv2d(X, Y),
            (TupleType([]), None),
            "nn.conv2d: argument 0 must be a tensor, got ()",
        ),
        (
            nn.conv2d(X, Y, data_layout="NCHW8c"),
            (TensorType((1, 2, 8, 8, 4)), None),
            (
                "nn.conv2d: the data of shape (1, 2, 8, 8, 4): "
                "layout NCHW8c has blocks of 8, but the tensor has blocks of 4"
            ),
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message


@pytest.mark.parametrize(
    ("padding", "expected"),
    [(1, (1, 1, 1, 1)), ((1, 2), (1, 2, 1, 2)), ([1, 2, 3, 4], (1, 2, 3, 4)), ((5,), (5, 5, 5, 5))],
)
def test_padding_is_stored_for_all_four_sides(padding: int | list[int], expected: tuple[int, ...]) -> None:
    call = nn.conv2d(X, Y, padding=padding)
    assert call.attrs is not None
    assert call.attrs["padding"] == expected


def test_numpy_numbers_become_python_numbers() -> None:
    size: Untyped = np.int64(3)
    attrs = nn.conv2d(X, Y, strides=size, padding=np.array([1, 2]), channels=size, kernel_size=size).attrs
    assert attrs is not None
    stored = [attrs[name] for name in ("strides", "padding", "channels", "kernel_size")]
    assert repr(stored) == "[(3, 3), (1, 2, 1, 2), 3, (3, 3)]"


def test_padding_of_three_numbers_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"padding must have 1, 2 or 4 numbers, got 3: \(1, 2, 3\)"):
        nn.conv2d(X, Y, padding=(1, 2, 3))


def test_attributes_have_the_order_of_tvm() -> None:
    attrs = nn.conv2d(X, Y, channels=4, kernel_size=3).attrs
    assert attrs is not None
    assert dict(attrs.items()) == {
        "strides": (1, 1),
        "padding": (0, 0, 0, 0),
        "dilation": (1, 1),
        "groups": 1,
        "channels": 4,
        "kernel_size": (3, 3),
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
        "out_layout": "",
        "out_dtype": "",
    }
    assert [name for name, _ in attrs.non_default()] == ["padding", "channels", "kernel_size"]


def test_packed_convolution_agrees_with_the_plain_one() -> None:
    data, weight = numbers(1, 8, 6, 6), numbers(16, 8, 3, 3)
    plain, packed = parse_layout("NCHW"), parse_layout("NCHW4c")
    call = nn.contrib_conv2d_nchwc(
        X, Y, padding=1, channels=16, kernel_size=3, data_layout="NCHW4c", kernel_layout="OIHW4i8o"
    )
    blocks = convert_array(weight, parse_layout("OIHW"), parse_layout("OIHW4i8o"))
    out = evaluated(call, convert_array(data, plain, packed), blocks)
    expected = evaluated(nn.conv2d(X, Y, padding=1), data, weight)
    close(out, convert_array(expected, plain, packed))


def test_packed_depthwise_convolution_agrees_with_the_plain_one() -> None:
    data, weight = numbers(1, 8, 6, 6), numbers(8, 1, 3, 3)
    plain, packed = parse_layout("NCHW"), parse_layout("NCHW4c")
    call = nn.contrib_depthwise_conv2d_nchwc(
        X, Y, groups=8, channels=8, kernel_size=3, data_layout="NCHW4c", kernel_layout="OIHW1i4o"
    )
    blocks = convert_array(weight, parse_layout("OIHW"), parse_layout("OIHW1i4o"))
    out = evaluated(call, convert_array(data, plain, packed), blocks)
    expected = evaluated(nn.conv2d(X, Y, groups=8), data, weight)
    close(out, convert_array(expected, plain, packed))
