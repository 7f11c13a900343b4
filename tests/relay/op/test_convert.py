"""Casts, bounds and copies."""

import numpy as np

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.ty import Any
from tests.relay.op.values import floats, lists, numbers, refusal, result_type, tensor, value


def test_cast_of_float_to_integer_truncates() -> None:
    assert lists(op.cast(floats([-1.7, 1.7]), "int32")) == [-1, 1]
    assert result_type(op.cast(tensor(2, Any()), "int8")) == "Tensor[(2, ?), int8]"


def test_cast_to_bool_is_true_for_nonzero() -> None:
    assert lists(op.cast(floats([0, 0.5, -1]), "bool")) == [False, True, True]


def test_cast_like_takes_only_the_element_type() -> None:
    assert result_type(op.cast_like(tensor(2, 3), tensor(dtype="int64"))) == "Tensor[(2, 3), int64]"


def test_reinterpret_keeps_the_bits() -> None:
    assert lists(op.reinterpret(floats([1.0]), "int32")) == [0x3F800000]
    assert refusal(op.reinterpret(tensor(2), "int64")) == (
        "reinterpret: the bits of Tensor[(2), float32] cannot be reinterpreted as int64: "
        "the element types must have the same size"
    )


def test_clip_keeps_the_element_type() -> None:
    assert lists(op.clip(numbers([-300, 5, 300]), -1e10, 100.0)) == [-300, 5, 100]
    assert lists(op.clip(const([0, 5, 255], "uint8"), -1.0, 6.0)) == [0, 5, 6]
    assert lists(op.clip(floats([-1, 0.5, 9]), 0, 6)) == [0, 0.5, 6]


def test_copy_and_fills_keep_the_type() -> None:
    data = floats([[1, 2]])
    functions = (op.copy, op.zeros_like, op.ones_like)
    assert [lists(function(data)) for function in functions] == [[[1, 2]], [[0, 0]], [[1, 1]]]


def test_fixed_point_multiply_rounds_half_up() -> None:
    half = 1 << 30
    assert lists(op.fixed_point_multiply(numbers([1, -1, 3, 100]), half, 0)) == [1, 0, 2, 50]
    assert lists(op.fixed_point_multiply(numbers([3]), half, 2)) == [6]
    assert lists(op.fixed_point_multiply(numbers([8]), half, -2)) == [1]
    assert value(op.fixed_point_multiply(numbers([1]), half, 0)).dtype == np.int32
