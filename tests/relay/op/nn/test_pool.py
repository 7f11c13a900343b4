"""Pooling with windows, of whole images and to a given size: against loops and ONNX; what their types tell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any as Whatever

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from apass.relay.expr import Call
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.ty import Any, TensorType
from tests.relay.op.nn.checks import (
    X,
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
    """A small pooling whose windows all hold an element of the data."""

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
        """Return the call for the largest elements."""
        given = (self.size, self.strides, self.dilation, self.padding)
        return MAX[self.rank](X, *given, ceil_mode=self.ceil)

    def avg(self, include_pad: bool) -> Call:
        """Return the call for the means."""
        given = (self.size, self.strides, self.dilation, self.padding)
        return AVG[self.rank](X, *given, ceil_mode=self.ceil, count_include_pad=include_pad)

    def windows(self, place: Sequence[int]) -> list[tuple[tuple[int, ...], bool]]:
        """Return where the elements of a window lie, and whether that is within the padding or better."""
        found: list[tuple[tuple[int, ...], bool]] = []
        for tap in product(*map(range, self.size)):
            each = zip(place, self.strides, tap, self.dilation, self.padding[: self.rank], strict=True)
            at = tuple(where * stride + step * gap - low for where, stride, step, gap, low in each)
            ends = zip(at, self.data[2:], self.padding[self.rank :], strict=True)
            found.append((at, all(one < length + high for one, length, high in ends)))
        return found

    def inside(self, at: Sequence[int]) -> bool:
        """Tell whether a place is one of the data's."""
        return all(0 <= one < length for one, length in zip(at, self.data[2:], strict=True))

    def by_loops(self, data: Array, fold: Callable[[list[float], int], float]) -> Array:
        """Pool one window at a time; `fold` gets the elements and how many places the padding adds."""
        count = [self.count(axis) for axis in range(self.rank)]
        out = np.zeros((*self.data[:2], *count))
        for n, c, *place in product(*map(range, out.shape)):
            spots = self.windows(place)
            elements = [data[(n, c, *at)].item() for at, _ in spots if self.inside(at)]
            out[(n, c, *place)] = fold(elements, sum(not self.inside(at) for at, within in spots if within))
        return out

    def count(self, axis: int) -> int:
        """Return how many windows there are along an axis."""
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
    lengths = [(one - 1) * gap + 1 + draw(st.integers(0, 3)) for one, gap in zip(size, dilation, strict=True)]
    padding = tuple(draw(st.integers(0, one - 1)) for one in size * 2)
    made = Problem((draw(st.integers(1, 2)), 2, *lengths), size, each(1, 3), dilation, padding, draw(st.booleans()))
    places = product(*(range(made.count(axis)) for axis in range(rank)))
    assume(all(any(made.inside(at) for at, _ in made.windows(place)) for place in places))
    return made


DTYPES = st.sampled_from(["float32", "float64", "int32", "int8", "uint8", "float16"])


@settings(max_examples=80)
@given(problems(), DTYPES)
def test_max_pooling_takes_the_largest_element_of_each_window(problem: Problem, dtype: str) -> None:
    data = numbers(*problem.data, dtype=dtype)
    expected = problem.by_loops(data, lambda elements, _: max(elements))
    same(evaluated(problem.max(), data), expected.astype(dtype))


@settings(max_examples=80)
@given(problems(), DTYPES, st.booleans())
def test_average_pooling_takes_the_mean_of_each_window(problem: Problem, dtype: str, include_pad: bool) -> None:
    data = numbers(*problem.data, dtype=dtype)

    def mean(elements: list[float], padded: int) -> float:
        return sum(elements) / (len(elements) + (padded if include_pad else 0))

    expected = problem.by_loops(data, mean).astype(dtype)
    tolerance = 1e-2 if dtype == "float16" else 1e-5
    close(evaluated(problem.avg(include_pad), data), expected, tolerance)


@given(problems(ranks=[2]), st.sampled_from(["NHWC", "HWCN", "NCHW2c"]), st.sampled_from(["", "NCHW"]))
def test_layouts_change_where_numbers_stand_and_nothing_else(problem: Problem, layout: str, out_layout: str) -> None:
    data = numbers(*problem.data)
    plain, src, dst = parse_layout("NCHW"), parse_layout(layout), parse_layout(out_layout or layout)
    given_attrs = (problem.size, problem.strides, problem.dilation, problem.padding, layout, out_layout, problem.ceil)
    for pool, expected in ((nn.max_pool2d, problem.max()), (nn.avg_pool2d, problem.avg(False))):
        out = evaluated(pool(X, *given_attrs), convert_array(data, plain, src))
        same(out, convert_array(evaluated(expected, data), plain, dst))


@pytest.mark.parametrize("ceil", [False, True])
def test_pooling_is_that_of_onnx(ceil: bool) -> None:
    data = numbers(2, 3, 15, 16)
    window_of_onnx: dict[str, Whatever] = {
        "kernel_shape": (3, 2),
        "strides": (2, 3),
        "pads": (1, 0, 1, 1),
        "ceil_mode": int(ceil),
    }
    window = ((3, 2), (2, 3), (1, 1), (1, 0, 1, 1))
    (expected,) = onnx_outputs("MaxPool", (data,), **window_of_onnx)
    same(evaluated(nn.max_pool2d(X, *window, ceil_mode=ceil), data), expected)
    for include in (False, True):
        call = nn.avg_pool2d(X, *window, ceil_mode=ceil, count_include_pad=include)
        (expected,) = onnx_outputs("AveragePool", (data,), count_include_pad=int(include), **window_of_onnx)
        close(evaluated(call, data), expected)


def test_the_mean_of_whole_numbers_is_rounded_towards_zero() -> None:
    data = np.array([[[-1, -2, 1, 2]]], "int32")
    assert evaluated(nn.avg_pool1d(X, 2, 2), data).tolist() == [[[-1, 1]]]


def test_a_sum_that_the_element_type_cannot_hold_has_the_right_mean() -> None:
    data = np.full((1, 1, 4, 4), 100, "int8")
    assert evaluated(nn.avg_pool2d(X, 4), data).item() == 100
    assert evaluated(nn.global_avg_pool2d(X), data).item() == 100
    assert evaluated(nn.adaptive_avg_pool2d(X, 1), data).item() == 100


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW2c"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_global_pooling_is_pooling_with_a_window_as_large_as_the_image(layout: str, dtype: str) -> None:
    plain, other = parse_layout("NCHW"), parse_layout(layout)
    data = numbers(2, 4, 5, 6, dtype=dtype)
    laid_out = convert_array(data, plain, other)
    pairs = ((nn.global_max_pool2d, nn.max_pool2d), (nn.global_avg_pool2d, nn.avg_pool2d))
    for whole, windowed in pairs:
        expected = evaluated(windowed(X, (5, 6)), data)
        out = evaluated(whole(X, layout), laid_out)
        close(out, convert_array(expected, plain, other))
        close(evaluated(whole(X, layout, "NCHW"), laid_out), expected)


def test_global_pooling_of_sequences_and_volumes_leaves_one_element_of_each_channel() -> None:
    volume, sequence = numbers(2, 3, 4, 5, 2), numbers(2, 3, 7)
    close(evaluated(nn.global_max_pool3d(X), volume), volume.max((2, 3, 4), keepdims=True))
    close(evaluated(nn.global_avg_pool3d(X), volume), volume.mean((2, 3, 4), keepdims=True))
    close(evaluated(nn.global_max_pool1d(X), sequence), sequence.max(2, keepdims=True))
    close(evaluated(nn.global_avg_pool1d(X, "NWC"), sequence), sequence.mean(1, keepdims=True))


@settings(max_examples=60)
@given(st.data(), st.sampled_from([1, 2, 3]))
def test_adaptive_pooling_cuts_each_dimension_into_bins_that_cover_it(data: st.DataObject, rank: int) -> None:
    lengths = data.draw(st.lists(st.integers(1, 7), min_size=rank, max_size=rank))
    sizes = tuple(data.draw(st.integers(1, 8)) for _ in lengths)
    array = numbers(2, 3, *lengths)
    largest, mean = np.zeros((2, 3, *sizes)), np.zeros((2, 3, *sizes))
    for place in product(*map(range, sizes)):
        each = list(zip(place, lengths, sizes, strict=True))
        bins = tuple(slice(int(at * n / m), int(np.ceil((at + 1) * n / m))) for at, n, m in each)
        part = array[(slice(None),) * 2 + bins].reshape(2, 3, -1)
        spot = (slice(None),) * 2 + tuple(place)
        largest[spot], mean[spot] = part.max(-1), part.mean(-1)
    same(evaluated(ADAPTIVE_MAX[rank](X, sizes), array), largest.astype("float32"))
    close(evaluated(ADAPTIVE_AVG[rank](X, sizes), array), mean)


def test_adaptive_pooling_keeps_the_size_unless_one_is_given() -> None:
    data = numbers(1, 2, 4, 6)
    same(evaluated(nn.adaptive_max_pool2d(X), data), data)
    assert evaluated(nn.adaptive_avg_pool2d(X, 2), data).shape == (1, 2, 2, 2)
    assert evaluated(nn.adaptive_avg_pool2d(X, (2, 3), "NHWC"), data).shape == (1, 2, 3, 6)


def test_dimensions_that_are_not_known_stay_so() -> None:
    data = TensorType((Any(), 3, Any(), 9), "int8")
    assert inferred(nn.max_pool2d(X, 3, 2), data) == [None, TensorType((Any(), 3, Any(), 4), "int8")]
    assert inferred(nn.global_avg_pool2d(X), data) == [None, TensorType((Any(), 3, 1, 1), "int8")]
    assert inferred(nn.adaptive_avg_pool2d(X, (7, 7)), data) == [None, TensorType((Any(), 3, 7, 7), "int8")]
    assert inferred(nn.adaptive_avg_pool2d(X), data) == [None, data]


def test_pooling_waits_for_the_data() -> None:
    for call in (nn.max_pool1d(X), nn.global_max_pool2d(X), nn.adaptive_max_pool3d(X)):
        assert inferred(call, None) is None


@pytest.mark.parametrize(
    ("call", "shape", "told"),
    [
        (
            nn.max_pool2d(X, 5),
            (1, 1, 4, 9),
            "nn.max_pool2d: a window that spans 5 does not fit into a dimension of 4 padded by (0, 0)",
        ),
        (
            nn.avg_pool1d(X, 2, layout="NWC"),
            (1, 1, 4, 9),
            "nn.avg_pool1d: the data of shape (1, 1, 4, 9): layout NWC is one of 3 dimensions, but the tensor has 4",
        ),
        (
            nn.global_avg_pool2d(X, "NCDW"),
            (1, 1, 4, 9),
            "nn.global_avg_pool2d: layout NCDW has other axes than NCHW; reorder or split those of NCHW",
        ),
        (
            nn.adaptive_max_pool3d(X, (1, 2)),
            (1, 1, 4, 9, 3),
            "nn.adaptive_max_pool3d: output_size must be 3 positive numbers, not (1, 2)",
        ),
        (
            nn.adaptive_max_pool1d(X, 0),
            (1, 1, 4),
            "nn.adaptive_max_pool1d: output_size must be 1 positive number, not (0,)",
        ),
    ],
)
def test_what_does_not_fit_is_told(call: Call, shape: tuple[int, ...], told: str) -> None:
    assert refused(call, TensorType(shape)) == told


def test_attributes_are_those_of_tvm_in_its_order() -> None:
    attrs = nn.avg_pool2d(X).attrs
    assert attrs is not None
    first = ("pool_size", "strides", "dilation", "padding", "layout", "out_layout")
    assert attrs.keys() == (*first, "ceil_mode", "count_include_pad")
