"""Reductions, cumulative operators and statistics."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.expr import Call
from apass.relay.ir.expr import const
from apass.relay.ty import Any
from tests.relay.op.values import bools, floats, lists, numbers, refusal, result_type, tensor, value, values

_DATA = np.random.default_rng(7).standard_normal((2, 3, 4)).astype("float32")


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "std"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("axis", "numpy_axis"), [(None, None), (1, 1), (-1, -1), ((0, 2), (0, 2)), ((), None)])
def test_reduction_agrees_with_numpy(
    name: str, keepdims: bool, axis: int | tuple[int, ...] | None, numpy_axis: int | tuple[int, ...] | None
) -> None:
    expected = getattr(np, name)(_DATA, axis=numpy_axis, keepdims=keepdims)
    result = value(getattr(op, name)(const(_DATA), axis, keepdims))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    assert result.shape == np.shape(expected)


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "bool"])
def test_extremes_of_no_elements_are_type_bounds(dtype: str) -> None:
    empty = const(np.zeros((2, 0, 3), dtype))
    bounds = {"float32": (-np.inf, np.inf), "int8": (-128, 127), "uint8": (0, 255), "bool": (False, True)}[dtype]
    for reduced, bound in ((op.max(empty, 1), bounds[0]), (op.min(empty, 1), bounds[1])):
        np.testing.assert_array_equal(value(reduced), np.full((2, 3), bound, dtype))
    assert value(op.max(empty, 0)).shape == (0, 3)
    assert value(op.argmax(empty, 0)).shape == (0, 3)
    assert lists(op.argmin(empty, 1, keepdims=True)) == [[[-1, -1, -1]]] * 2


def test_mean_of_no_elements_is_nan() -> None:
    np.testing.assert_array_equal(value(op.mean(const(np.zeros((2, 0), "float32")), 1)), [np.nan, np.nan])
    assert value(op.mean(const(np.zeros((2, 0), "float32")), 0)).shape == (0,)


def test_exclude_reduces_the_other_axes() -> None:
    np.testing.assert_allclose(value(op.sum(const(_DATA), 1, exclude=True)), _DATA.sum((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(value(op.max(const(_DATA), (0, -1), exclude=True)), _DATA.max(1))
    np.testing.assert_allclose(value(op.sum(const(_DATA), exclude=True)), _DATA.sum(), rtol=1e-5)


def test_integer_reductions_keep_the_element_type() -> None:
    assert lists(op.sum(const([100, 100], "int8"))) == -56
    assert lists(op.mean(numbers([[1, 2], [-1, -2]]), 1)) == [1, -1]


def test_all_and_any_reduce_bools() -> None:
    data = bools([[True, True], [True, False], [False, False]])
    assert lists(op.all(data, 1)) == [True, False, False]
    assert lists(op.any(data, 1)) == [True, True, False]
    assert lists(op.any(data)) is True


@pytest.mark.parametrize(("function", "numpy_function"), [(op.argmax, np.argmax), (op.argmin, np.argmin)])
def test_argmax_and_argmin_agree_with_numpy(
    function: Callable[..., Call], numpy_function: Callable[..., np.ndarray[tuple[int, ...], np.dtype[np.int64]]]
) -> None:
    for axis in (0, 1, -1):
        result = value(function(const(_DATA), axis))
        assert result.dtype == np.int32
        np.testing.assert_array_equal(result, numpy_function(_DATA, axis))
    assert value(function(const(_DATA))) == numpy_function(_DATA)
    assert value(function(const(_DATA), keepdims=True)).shape == (1, 1, 1)
    np.testing.assert_array_equal(value(function(const(_DATA), (1, 2))), numpy_function(_DATA.reshape(2, 12), 1))


def test_argmax_selects_first_or_last_equal_element() -> None:
    data = numbers([[1, 3, 3], [0, 0, 2]])
    assert lists(op.argmax(data, 1)) == [1, 2]
    assert lists(op.argmax(data, 1, select_last_index=True)) == [2, 2]
    assert lists(op.argmin(data, 1)) == [0, 0]
    assert lists(op.argmin(data, 1, select_last_index=True)) == [0, 1]


def test_reduction_types_follow_axes_and_keepdims() -> None:
    data = tensor(2, Any(), 4)
    assert result_type(op.sum(data, 1)) == "Tensor[(2, 4), float32]"
    assert result_type(op.mean(data, 2, keepdims=True)) == "Tensor[(2, ?, 1), float32]"
    assert result_type(op.argmax(data)) == "int32"
    assert refusal(op.sum(data, 3)) == "sum: axis 3 is out of range for 3 dimensions; expected -3 to 2"


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
def test_variance_and_derived_statistics_agree_with_numpy(unbiased: bool, exclude: bool, keepdims: bool) -> None:
    data, axis = const(_DATA.reshape(1, 6, 4)), (0, 2) if exclude else 1
    array = _DATA.reshape(1, 6, 4)
    expected = array.var(1, ddof=int(unbiased), keepdims=keepdims)
    arguments = (data, axis, keepdims, exclude)
    np.testing.assert_allclose(value(op.variance(*arguments, unbiased)), expected, rtol=1e-5)
    np.testing.assert_allclose(value(op.std(*arguments, unbiased)), np.sqrt(expected), rtol=1e-5)
    mean, variance = values(op.mean_variance(*arguments, unbiased))
    np.testing.assert_allclose(mean, array.mean(1, keepdims=keepdims), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, expected, rtol=1e-5)
    mean, deviation = values(op.mean_std(*arguments))
    np.testing.assert_allclose(mean, array.mean(1, keepdims=keepdims), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, array.std(1, keepdims=keepdims), rtol=1e-5)


def test_logsumexp_does_not_overflow() -> None:
    data = floats([[1000.0, 1000.0], [-1000.0, 0.0]])
    np.testing.assert_allclose(value(op.logsumexp(data, 1)), [1000 + np.log(2), 0], rtol=1e-6)
    assert value(op.logsumexp(data, 1, keepdims=True)).shape == (2, 1)
    np.testing.assert_allclose(value(op.logsumexp(const(_DATA))), np.log(np.exp(_DATA).sum()), rtol=1e-5)


def test_cumulative_operators_scan_along_an_axis() -> None:
    data = numbers([[1, 2, 3], [4, 5, 6]])
    assert lists(op.cumsum(data)) == [1, 3, 6, 10, 15, 21]
    assert lists(op.cumsum(data, 0)) == [[1, 2, 3], [5, 7, 9]]
    assert lists(op.cumsum(data, 1)) == [[1, 3, 6], [4, 9, 15]]
    assert lists(op.cumprod(data, -1)) == [[1, 2, 6], [4, 20, 120]]
    assert lists(op.cumsum(data, 1, exclusive=True)) == [[0, 1, 3], [0, 4, 9]]
    assert lists(op.cumprod(data, 1, exclusive=True)) == [[1, 1, 2], [1, 4, 20]]
    assert lists(op.cumsum(bools([True, False, True, True]), dtype="int32")) == [1, 1, 2, 3]
    assert result_type(op.cumsum(tensor(2, 3), dtype="float64")) == "Tensor[(6), float64]"


@given(data=st.lists(st.integers(-9, 9), min_size=1))
def test_last_cumulative_sum_is_the_sum(data: list[int]) -> None:
    assert value(op.cumsum(numbers(data)))[-1] == value(op.sum(numbers(data)))
