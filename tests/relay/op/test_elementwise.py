"""Elementwise operators: special cases, and agreement with Python's functions."""

import math

import numpy as np
import pytest

from apass.relay import op
from apass.relay.ir.expr import var
from apass.relay.ty import TensorType, TupleType
from tests.relay.op.values import bools, floats, lists, numbers, refusal, result_type, tensor, value

_INFINITY = float("inf")


@pytest.mark.parametrize(
    ("name", "math_name"),
    [
        ("acos", "acos"),
        ("asin", "asin"),
        ("asinh", "asinh"),
        ("atan", "atan"),
        ("atanh", "atanh"),
        ("ceil", "ceil"),
        ("cos", "cos"),
        ("cosh", "cosh"),
        ("erf", "erf"),
        ("exp", "exp"),
        ("floor", "floor"),
        ("sin", "sin"),
        ("sinh", "sinh"),
        ("tan", "tan"),
        ("tanh", "tanh"),
        ("trunc", "trunc"),
    ],
)
def test_function_agrees_with_the_math_module(name: str, math_name: str) -> None:
    points = [-0.9, -0.5, 0.0, 0.25, 0.75]
    expected = [getattr(math, math_name)(point) for point in points]
    np.testing.assert_allclose(value(getattr(op, name)(floats(points))), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["log", "log2", "log10", "sqrt", "acosh"])
def test_function_of_positive_numbers_agrees_with_math(name: str) -> None:
    points = [1.0, 1.5, 10.0, 1000.0]
    expected = [getattr(math, name)(point) for point in points]
    np.testing.assert_allclose(value(getattr(op, name)(floats(points))), expected, rtol=1e-6, atol=1e-7)


def test_rsqrt_and_sigmoid_compute_known_values() -> None:
    assert lists(op.rsqrt(floats([4, 16]))) == [0.5, 0.25]
    assert lists(op.sigmoid(floats([-1000, 0, 1000]))) == [0, 0.5, 1]


def test_round_takes_halves_away_from_zero() -> None:
    points = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, 8388609.0]
    assert lists(op.round(floats(points))) == [-3, -2, -1, 1, 2, 3, 0, 8388609]


def test_sign_negative_and_abs_handle_all_signs() -> None:
    assert lists(op.sign(floats([-3, 0, 2]))) == [-1, 0, 1]
    assert lists(op.negative(numbers([-3, 0, 2]))) == [3, 0, -2]
    assert lists(op.abs(numbers([-3, 0, 2]))) == [3, 0, 2]


def test_predicates_recognize_nan_and_infinity() -> None:
    data = floats([1, math.nan, _INFINITY, -_INFINITY])
    assert lists(op.isnan(data)) == [False, True, False, False]
    assert lists(op.isinf(data)) == [False, False, True, True]
    assert lists(op.isfinite(data)) == [True, False, False, False]


def test_undefined_values_are_nan_without_warning() -> None:
    assert np.isnan(value(op.sqrt(floats(-1.0)))).all()
    assert lists(op.log(floats([0.0]))) == [-_INFINITY]


def test_float16_element_type_is_kept() -> None:
    assert result_type(op.exp(tensor(2, dtype="float16"))) == "Tensor[(2), float16]"
    assert value(op.exp(op.cast(floats([0, 1]), "float16"))).dtype == np.float16


def test_logical_operators_follow_truth_tables() -> None:
    a, b = bools([True, True, False, False]), bools([True, False, True, False])
    assert lists(op.logical_and(a, b)) == [True, False, False, False]
    assert lists(op.logical_or(a, b)) == [True, True, True, False]
    assert lists(op.logical_xor(a, b)) == [False, True, True, False]
    assert lists(op.logical_not(a)) == [False, False, True, True]


def test_bitwise_operators_work_on_each_bit() -> None:
    a, b = numbers([12, -1]), numbers([10, 1])
    assert lists(op.bitwise_and(a, b)) == [8, 1]
    assert lists(op.bitwise_or(a, b)) == [14, -1]
    assert lists(op.bitwise_xor(a, b)) == [6, -2]
    assert lists(op.bitwise_not(a)) == [-13, 0]
    assert lists(op.left_shift(a, b)) == [12288, -2]
    assert lists(op.right_shift(a, b)) == [0, -1]


def test_comparisons_return_bools() -> None:
    a, b = numbers([1, 2, 3]), numbers(2)
    results = [lists(getattr(op, name)(a, b)) for name in ("equal", "not_equal", "less", "less_equal", "greater")]
    assert results == [
        [False, True, False],
        [True, False, True],
        [True, False, False],
        [True, True, False],
        [False, False, True],
    ]
    assert lists(op.greater_equal(a, b)) == [False, True, True]


def test_comparison_of_different_element_types_is_rejected() -> None:
    assert refusal(op.less(tensor(2), tensor(2, dtype="int32"))) == (
        "less: the element types differ: Tensor[(2), float32] and Tensor[(2), int32]; cast to one of them"
    )


def test_operand_that_is_no_tensor_is_rejected() -> None:
    pair = var("pair", TupleType([TensorType((2,))]))
    assert refusal(op.exp(pair)) == "exp: data must be a tensor, got (Tensor[(2), float32],)"
    assert refusal(op.add(pair, tensor(2))) == ("add: the left operand must be a tensor, got (Tensor[(2), float32],)")
