"""Transposed convolutions: plain loops, ONNX, transposition, and types."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any as Untyped

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apass.relay.expr import Call
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
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
)

CONVS = {1: nn.conv1d_transpose, 2: nn.conv2d_transpose, 3: nn.conv3d_transpose}


@dataclass(frozen=True, slots=True)
class Problem:
    """A small transposed convolution."""

    data: tuple[int, ...]
    weight: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    extra: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.strides)

    @property
    def lengths(self) -> list[int]:
        """The spatial dimensions of the result."""
        extents = [(size - 1) * gap + 1 for size, gap in zip(self.weight[2:], self.dilation, strict=True)]
        removed = [self.padding[axis] + self.padding[axis + self.rank] for axis in range(self.rank)]
        axes = zip(self.data[2:], self.strides, extents, removed, self.extra, strict=True)
        return [(length - 1) * stride + extent - less + more for length, stride, extent, less, more in axes]

    def call(self, **options: Untyped) -> Call:
        """Return the call of the transposed convolution."""
        conv = CONVS[self.rank]
        args = (self.strides, self.padding, self.dilation, self.groups)
        return conv(X, Y, *args, output_padding=self.extra, **options)


@st.composite
def problems(
    draw: st.DrawFn, ranks: Sequence[int] = (1, 2, 3), channels: Sequence[int] = (1, 2), most_extra: int = 1
) -> Problem:
    """Draw a small transposed convolution with a nonempty result."""
    rank, groups = draw(st.sampled_from(ranks)), draw(st.sampled_from([1, 1, 2, 3]))

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    group_channels, filters = draw(st.sampled_from(channels)), draw(st.sampled_from(channels))
    data = (draw(st.integers(1, 2)), group_channels * groups, *each(1, 4))
    weight = (group_channels * groups, filters, *each(1, 3))
    problem = Problem(data, weight, each(1, 3), each(0, 1, 2 * rank), each(1, 2), groups, each(0, most_extra))
    assume(min(problem.lengths) > 0)
    return problem


def by_loops(problem: Problem, data: Array, weight: Array) -> Array:
    """Return the transposed convolution of NC... with IO..., one product at a time."""
    rank, groups = problem.rank, problem.groups
    group_channels, filters = data.shape[1] // groups, weight.shape[1]
    out = np.zeros((data.shape[0], filters * groups, *problem.lengths))
    for n, i, *position in product(*map(range, data.shape)):
        for o, *tap in product(*map(range, weight.shape[1:])):
            axes = zip(position, problem.strides, tap, problem.dilation, problem.padding[:rank], strict=True)
            target = [index * stride + step * gap - low for index, stride, step, gap, low in axes]
            if all(0 <= index < length for index, length in zip(target, problem.lengths, strict=True)):
                channel = i // group_channels * filters + o
                out[(n, channel, *target)] += data[(n, i, *position)].item() * weight[(i, o, *tap)].item()
    return out


@settings(max_examples=amount(80))
@given(problems(), st.sampled_from(["float32", "float64", "int32"]))
def test_transposed_convolution_agrees_with_plain_loops(problem: Problem, dtype: str) -> None:
    data, weight = numbers(*problem.data, dtype=dtype), numbers(*problem.weight, dtype=dtype)
    out = evaluated(problem.call(), data, weight)
    close(out, by_loops(problem, data, weight))


@given(
    problems(ranks=[2], channels=[2, 4]),
    st.sampled_from(["NCHW", "NHWC", "NCHW2c"]),
    st.sampled_from(["IOHW", "OIHW", "HWIO", "HWOI", "IOHW2i2o"]),
    st.sampled_from(["", "NHWC"]),
)
def test_layout_changes_only_the_order_of_elements(
    problem: Problem, data_layout: str, kernel_layout: str, out_layout: str
) -> None:
    data, weight = numbers(*problem.data), numbers(*problem.weight)
    plain = parse_layout("NCHW")
    converted = problem.call(data_layout=data_layout, kernel_layout=kernel_layout, out_layout=out_layout)
    inputs = (
        convert_array(data, plain, parse_layout(data_layout)),
        convert_array(weight, parse_layout("IOHW"), parse_layout(kernel_layout)),
    )
    expected = convert_array(evaluated(problem.call(), data, weight), plain, parse_layout(out_layout or data_layout))
    close(evaluated(converted, *inputs), expected)


@given(problems(ranks=[1, 2], most_extra=0))
def test_it_is_the_transpose_of_the_convolution(problem: Problem) -> None:
    conv = nn.conv1d if problem.rank == 1 else nn.conv2d
    y, weight = numbers(*problem.data, dtype="float64"), numbers(*problem.weight, dtype="float64")
    spread = evaluated(problem.call(), y, weight)
    x = numbers(*spread.shape, dtype="float64", seed=1)
    forward = conv(X, Y, problem.strides, problem.padding, problem.dilation, problem.groups)
    close(np.vdot(evaluated(forward, x, weight), y), np.vdot(x, spread), 1e-9)


def test_conv2d_transpose_agrees_with_onnx() -> None:
    data, weight = numbers(1, 6, 9, 10), numbers(6, 4, 3, 3)
    call = nn.conv2d_transpose(X, Y, strides=2, padding=(1, 0, 1, 1), groups=1, output_padding=(1, 0))
    (expected,) = onnx_outputs(
        "ConvTranspose", (data, weight), strides=(2, 2), pads=(1, 0, 1, 1), output_padding=(1, 0)
    )
    close(evaluated(call, data, weight), expected, 1e-4)


def test_weight_type_follows_from_data_and_attributes() -> None:
    call = nn.conv2d_transpose(X, Y, strides=(2, 2), channels=10, kernel_size=3, padding=1, output_padding=1)
    data = TensorType((Any(), 3, 18, Any()))
    assert inferred(call, data, None) == [None, TensorType((3, 10, 3, 3)), TensorType((Any(), 10, 36, Any()))]
    channels_last = nn.conv2d_transpose(
        X, Y, channels=8, groups=2, kernel_size=2, data_layout="NHWC", kernel_layout="HWIO"
    )
    types = inferred(channels_last, TensorType((1, 4, 4, 6), "float64"), None)
    assert types == [None, TensorType((2, 2, 6, 4), "float64"), TensorType((1, 5, 5, 8), "float64")]


def test_kernel_layout_names_channels_as_tvm() -> None:
    weight = TensorType((3, 10, 2, 2))
    assert inferred(nn.conv2d_transpose(X, Y), TensorType((1, 3, 4, 4)), weight) is not None
    swapped = nn.conv2d_transpose(X, Y, kernel_layout="OIHW")
    assert inferred(swapped, TensorType((1, 10, 4, 4)), weight) == [None, weight, TensorType((1, 3, 5, 5))]
    # In one and three dimensions, O is the axis of the channels of the data.
    line = nn.conv1d_transpose(X, Y, kernel_layout="OIW")
    assert inferred(line, TensorType((1, 3, 4)), TensorType((3, 10, 2))) == [
        None,
        TensorType((3, 10, 2)),
        TensorType((1, 10, 5)),
    ]


def test_text_names_the_kernel_layout_of_python() -> None:
    attrs = nn.conv2d_transpose(X, Y).attrs
    assert attrs is not None
    assert dict(attrs.non_default())["kernel_layout"] == "IOHW"


def test_conv1d_transpose_ignores_further_output_paddings() -> None:
    short, long = (nn.conv1d_transpose(X, Y, output_padding=extra) for extra in ((1,), (1, 2)))
    assert short.attrs == long.attrs
    assert inferred(long, TensorType((1, 3, 4)), TensorType((3, 5, 2))) is not None
    assert evaluated(long, numbers(1, 3, 4), numbers(3, 5, 2)).shape == (1, 5, 6)


def test_transposed_convolution_waits_for_data_and_weight_types() -> None:
    assert inferred(nn.conv1d_transpose(X, Y), None, TensorType((1, 1, 1))) is None
    assert inferred(nn.conv1d_transpose(X, Y, channels=1), TensorType((1, 1, 1)), None) is None


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.conv2d_transpose(X, Y),
            (TensorType((1, 3, 8, 8)), TensorType((4, 3, 3, 3), "int8")),
            "nn.conv2d_transpose: the weight must have the shape (3, 3, 3, 3), got Tensor[(4, 3, 3, 3), int8]",
        ),
        (
            nn.conv2d_transpose(X, Y, padding=4),
            (TensorType((1, 3, 2, 2)), TensorType((3, 3, 3, 3))),
            "nn.conv2d_transpose: padding (4, 4, 4, 4) leaves a result of length -4; reduce it",
        ),
        (
            nn.conv2d_transpose(X, Y, channels=3, groups=2, kernel_size=2),
            (TensorType((1, 4, 2, 2)), None),
            "nn.conv2d_transpose: the number of output channels must be a multiple of 2, got 3",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message


def test_attributes_have_the_order_of_tvm() -> None:
    attrs = nn.conv2d_transpose(X, Y).attrs
    assert attrs is not None
    first = ("channels", "kernel_size", "strides", "output_padding", "padding", "dilation", "groups")
    assert attrs.keys() == (*first, "data_layout", "kernel_layout", "out_layout", "out_dtype")
