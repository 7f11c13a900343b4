"""Pooling with windows, global and adaptive: plain loops, ONNX, and types."""

from collections.abc import Callable, Sequence
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
    same,
)

MAX = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
AVG = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}
ADAPTIVE_MAX = {1: nn.adaptive_max_pool1d, 2: nn.adaptive_max_pool2d, 3: nn.adaptive_max_pool3d}
ADAPTIVE_AVG = {1: nn.adaptive_avg_pool1d, 2: nn.adaptive_avg_pool2d, 3: nn.adaptive_avg_pool3d}
PLAIN = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A small pooling in which every window contains an element of the data."""

    data: tuple[int, ...]
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]
    ceil: bool

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.size)

    def max(self) -> Call:
        """Return the call of max pooling."""
        args = (self.size, self.strides, self.dilation, self.padding)
        return MAX[self.rank](X, *args, ceil_mode=self.ceil)

    def avg(self, include_pad: bool) -> Call:
        """Return the call of average pooling."""
        args = (self.size, self.strides, self.dilation, self.padding)
        return AVG[self.rank](X, *args, ceil_mode=self.ceil, count_include_pad=include_pad)

    def windows(self, index: Sequence[int]) -> list[tuple[tuple[int, ...], bool]]:
        """Return each position of a window, and whether it is within the padding."""
        result: list[tuple[tuple[int, ...], bool]] = []
        for tap in product(*map(range, self.size)):
            axes = zip(index, self.strides, tap, self.dilation, self.padding[: self.rank], strict=True)
            position = tuple(start * stride + step * gap - low for start, stride, step, gap, low in axes)
            ends = zip(position, self.data[2:], self.padding[self.rank :], strict=True)
            result.append((position, all(element < length + high for element, length, high in ends)))
        return result

    def inside(self, position: Sequence[int]) -> bool:
        """Return whether a position is inside the data."""
        return all(0 <= element < length for element, length in zip(position, self.data[2:], strict=True))

    def by_loops(self, data: Array, fold: Callable[[list[float], int], float]) -> Array:
        """Pool one window at a time; `fold` gets its elements and its padding count."""
        count = [self.count(axis) for axis in range(self.rank)]
        out = np.zeros((*self.data[:2], *count))
        for n, c, *index in product(*map(range, out.shape)):
            window = self.windows(index)
            elements = [data[(n, c, *position)].item() for position, _ in window if self.inside(position)]
            padded = sum(not self.inside(position) for position, within in window if within)
            out[(n, c, *index)] = fold(elements, padded)
        return out

    def count(self, axis: int) -> int:
        """Return the number of windows along an axis."""
        room = self.data[axis + 2] + self.padding[axis] + self.padding[axis + self.rank]
        room -= (self.size[axis] - 1) * self.dilation[axis] + 1
        return (-(-room // self.strides[axis]) if self.ceil else room // self.strides[axis]) + 1


@st.composite
def problems(draw: st.DrawFn, ranks: Sequence[int] = (1, 2, 3)) -> Problem:
    """Draw a small pooling."""
    rank = draw(st.sampled_from(ranks))

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    size, dilation = each(1, 3), each(1, 2)
    lengths = [(count - 1) * gap + 1 + draw(st.integers(0, 3)) for count, gap in zip(size, dilation, strict=True)]
    padding = tuple(draw(st.integers(0, count - 1)) for count in size * 2)
    problem = Problem((draw(st.integers(1, 2)), 2, *lengths), size, each(1, 3), dilation, padding, draw(st.booleans()))
    indices = product(*(range(problem.count(axis)) for axis in range(rank)))
    assume(all(any(problem.inside(position) for position, _ in problem.windows(index)) for index in indices))
    return problem


DTYPES = st.sampled_from(["float32", "float64", "int32", "int8", "uint8", "float16"])


@settings(max_examples=amount(80))
@given(problems(), DTYPES)
def test_max_pooling_agrees_with_plain_loops(problem: Problem, dtype: str) -> None:
    data = numbers(*problem.data, dtype=dtype)
    expected = problem.by_loops(data, lambda elements, _: max(elements))
    same(evaluated(problem.max(), data), expected.astype(dtype))


@settings(max_examples=amount(80))
@given(problems(), DTYPES, st.booleans())
def test_average_pooling_agrees_with_plain_loops(problem: Problem, dtype: str, include_pad: bool) -> None:
    data = numbers(*problem.data, dtype=dtype)

    def mean(elements: list[float], padded: int) -> float:
        return sum(elements) / (len(elements) + (padded if include_pad else 0))

    expected = problem.by_loops(data, mean).astype(dtype)
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    close(evaluated(problem.avg(include_pad), data), expected, tolerance)


@given(problems(ranks=[2]), st.sampled_from(["NHWC", "HWCN", "NCHW2c"]), st.sampled_from(["", "NCHW"]))
def test_layout_changes_only_the_order_of_elements(problem: Problem, layout: str, out_layout: str) -> None:
    data = numbers(*problem.data)
    plain, src, dst = parse_layout("NCHW"), parse_layout(layout), parse_layout(out_layout or layout)
    args = (problem.size, problem.strides, problem.dilation, problem.padding, layout, out_layout, problem.ceil)
    for pool, expected in ((nn.max_pool2d, problem.max()), (nn.avg_pool2d, problem.avg(False))):
        out = evaluated(pool(X, *args), convert_array(data, plain, src))
        same(out, convert_array(evaluated(expected, data), plain, dst))


@pytest.mark.parametrize("ceil", [False, True])
def test_pooling_agrees_with_onnx(ceil: bool) -> None:
    data = numbers(2, 3, 15, 16)
    onnx_window: dict[str, Untyped] = {
        "kernel_shape": (3, 2),
        "strides": (2, 3),
        "pads": (1, 0, 1, 1),
        "ceil_mode": int(ceil),
    }
    window = ((3, 2), (2, 3), (1, 1), (1, 0, 1, 1))
    (expected,) = onnx_outputs("MaxPool", (data,), **onnx_window)
    same(evaluated(nn.max_pool2d(X, *window, ceil_mode=ceil), data), expected)
    for include in (False, True):
        call = nn.avg_pool2d(X, *window, ceil_mode=ceil, count_include_pad=include)
        (expected,) = onnx_outputs("AveragePool", (data,), count_include_pad=int(include), **onnx_window)
        close(evaluated(call, data), expected)


def test_integer_mean_is_truncated_towards_zero() -> None:
    data = np.array([[[-1, -2, 1, 2]]], "int32")
    assert evaluated(nn.avg_pool1d(X, 2, 2), data).tolist() == [[[-1, 1]]]


def test_mean_is_exact_when_the_sum_overflows() -> None:
    data = np.full((1, 1, 4, 4), 100, "int8")
    assert evaluated(nn.avg_pool2d(X, 4), data).item() == 100
    assert evaluated(nn.global_avg_pool2d(X), data).item() == 100
    assert evaluated(nn.adaptive_avg_pool2d(X, 1), data).item() == 100


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW2c"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_global_pooling_agrees_with_a_full_window(layout: str, dtype: str) -> None:
    plain, other = parse_layout("NCHW"), parse_layout(layout)
    data = numbers(2, 4, 5, 6, dtype=dtype)
    converted = convert_array(data, plain, other)
    pairs = ((nn.global_max_pool2d, nn.max_pool2d), (nn.global_avg_pool2d, nn.avg_pool2d))
    for whole, windowed in pairs:
        expected = evaluated(windowed(X, (5, 6)), data)
        out = evaluated(whole(X, layout), converted)
        close(out, convert_array(expected, plain, other))
        close(evaluated(whole(X, layout, "NCHW"), converted), expected)


def test_global_pooling_of_sequences_and_volumes_reduces_channels() -> None:
    volume, sequence = numbers(2, 3, 4, 5, 2), numbers(2, 3, 7)
    close(evaluated(nn.global_max_pool3d(X), volume), volume.max((2, 3, 4), keepdims=True))
    close(evaluated(nn.global_avg_pool3d(X), volume), volume.mean((2, 3, 4), keepdims=True))
    close(evaluated(nn.global_max_pool1d(X), sequence), sequence.max(2, keepdims=True))
    close(evaluated(nn.global_avg_pool1d(X, "NWC"), sequence), sequence.mean(1, keepdims=True))


@settings(max_examples=amount(60))
@given(st.data(), st.sampled_from([1, 2, 3]))
def test_adaptive_pooling_bins_cover_each_dimension(data: st.DataObject, rank: int) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank))
    sizes = tuple(data.draw(st.integers(1, 8)) for _ in lengths)
    array = numbers(2, 3, *lengths)
    largest, mean = np.zeros((2, 3, *sizes)), np.zeros((2, 3, *sizes))
    for index in product(*map(range, sizes)):
        axes = list(zip(index, lengths, sizes, strict=True))
        bins = tuple(slice(int(i * n / m), int(np.ceil((i + 1) * n / m))) for i, n, m in axes)
        part = array[(slice(None),) * 2 + bins].reshape(2, 3, -1)
        target = (slice(None),) * 2 + tuple(index)
        largest[target], mean[target] = part.max(-1), part.mean(-1)
    same(evaluated(ADAPTIVE_MAX[rank](X, sizes), array), largest.astype("float32"))
    close(evaluated(ADAPTIVE_AVG[rank](X, sizes), array), mean)


def test_adaptive_pooling_without_size_keeps_the_size() -> None:
    data = numbers(1, 2, 4, 6)
    same(evaluated(nn.adaptive_max_pool2d(X), data), data)
    assert evaluated(nn.adaptive_avg_pool2d(X, 2), data).shape == (1, 2, 2, 2)
    assert evaluated(nn.adaptive_avg_pool2d(X, (2, 3), "NHWC"), data).shape == (1, 2, 3, 6)


def test_symbolic_dimensions_stay_symbolic() -> None:
    data = TensorType((Any(), 3, Any(), 9), "int8")
    assert inferred(nn.max_pool2d(X, 3, 2), data) == [None, TensorType((Any(), 3, Any(), 4), "int8")]
    assert inferred(nn.global_avg_pool2d(X), data) == [None, TensorType((Any(), 3, 1, 1), "int8")]
    assert inferred(nn.adaptive_avg_pool2d(X, (7, 7)), data) == [None, TensorType((Any(), 3, 7, 7), "int8")]
    assert inferred(nn.adaptive_avg_pool2d(X), data) == [None, data]


def test_pooling_waits_for_the_data_type() -> None:
    for call in (nn.max_pool1d(X), nn.global_max_pool2d(X), nn.adaptive_max_pool3d(X)):
        assert inferred(call, None) is None


@pytest.mark.parametrize(
    ("call", "shape", "message"),
    [
        (
            nn.max_pool2d(X, 5),
            (1, 1, 4, 9),
            "nn.max_pool2d: a window of extent 5 does not fit into a dimension of 4 with padding (0, 0)",
        ),
        (
            nn.avg_pool1d(X, 2, layout="NWC"),
            (1, 1, 4, 9),
            "nn.avg_pool1d: the data of shape (1, 1, 4, 9): layout NWC has 3 dimensions, but the tensor has 4",
        ),
        (
            nn.global_avg_pool2d(X, "NCDW"),
            (1, 1, 4, 9),
            "nn.global_avg_pool2d: layout must have the axes of NCHW, got NCDW; reorder or split the axes of NCHW",
        ),
        (
            nn.adaptive_max_pool3d(X, (1, 2)),
            (1, 1, 4, 9, 3),
            "nn.adaptive_max_pool3d: output_size must be 3 positive numbers, got (1, 2)",
        ),
        (
            nn.adaptive_max_pool1d(X, 0),
            (1, 1, 4),
            "nn.adaptive_max_pool1d: output_size must be 1 positive number, got (0,)",
        ),
    ],
)
def test_invalid_pooling_is_rejected(call: Call, shape: tuple[int, ...], message: str) -> None:
    assert refused(call, TensorType(shape)) == message


def test_attributes_have_the_order_of_tvm() -> None:
    attrs = nn.avg_pool2d(X).attrs
    assert attrs is not None
    first = ("pool_size", "strides", "dilation", "padding", "layout", "out_layout")
    assert attrs.keys() == (*first, "ceil_mode", "count_include_pad")


def test_max_pool2d_grad_goes_to_first_maximum() -> None:
    grad = nn.max_pool2d_grad(X, Y, (2, 2))
    same(evaluated(grad, [[[[5, 7]]]], [[[[1, 1, 0], [1, 0, 2]]]]), [[[[5, 0, 0], [0, 0, 7]]]])


def test_avg_pool2d_grad_counts_padding_if_asked_for() -> None:
    for counted, expected in ((False, 9), (True, 6)):
        grad = nn.avg_pool2d_grad(X, Y, (1, 2), padding=(0, 1), count_include_pad=counted)
        same(evaluated(grad, [[[[6, 6, 6]]]], [[[[0, 0]]]]), [[[[expected, expected]]]])


def test_pool_grad_has_the_type_of_the_data() -> None:
    data, out = TensorType((1, 8, 8, 3)), TensorType((1, 3, 3, 3))
    call = nn.avg_pool2d_grad(X, Y, 3, 2, 1, "NHWC", dilation=2)
    assert inferred(call, None, data) == [out, None, data]
    assert inferred(call, out, None) is None
    assert "nn.avg_pool2d_grad: out_grad" in refused(call, data, data)
