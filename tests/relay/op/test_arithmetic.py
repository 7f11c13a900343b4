"""Arithmetic with broadcasting: integers divide as in C."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.ty import Any, ShapeVar
from tests.relay.op.values import floats, lists, numbers, refusal, result_type, tensor, value

_WHOLE = st.integers(-100, 100)
_DIVISOR = _WHOLE.filter(bool)


@given(a=_WHOLE, b=_DIVISOR)
def test_divide_and_mod_truncate_integers_as_c(a: int, b: int) -> None:
    quotient, rest = value(op.divide(numbers(a), numbers(b))), value(op.mod(numbers(a), numbers(b)))
    assert quotient == int(a / b)
    assert rest == a - int(a / b) * b
    assert (value(op.trunc_divide(numbers(a), numbers(b))), value(op.trunc_mod(numbers(a), numbers(b)))) == (
        quotient,
        rest,
    )


@given(a=_WHOLE, b=_DIVISOR)
def test_floor_divide_and_floor_mod_agree_with_python(a: int, b: int) -> None:
    assert value(op.floor_divide(numbers(a), numbers(b))) == a // b
    assert value(op.floor_mod(numbers(a), numbers(b))) == a % b


def test_float_division_is_exact_in_each_rounding() -> None:
    a, b = floats([-7.5, 7.5]), floats([2.0, -2.0])
    assert lists(op.divide(a, b)) == [-3.75, -3.75]
    assert lists(op.mod(a, b)) == lists(op.trunc_mod(a, b)) == [-1.5, 1.5]
    assert lists(op.trunc_divide(a, b)) == [-3, -3]
    assert lists(op.floor_divide(a, b)) == [-4, -4]
    assert lists(op.floor_mod(a, b)) == [0.5, -0.5]


def test_float_division_by_zero_is_infinite() -> None:
    assert lists(op.divide(floats([1, -1]), floats(0.0))) == [float("inf"), -float("inf")]


def test_binary_arithmetic_computes_each_element() -> None:
    a, b = numbers([1, 5]), numbers([3, 2])
    functions = (op.add, op.subtract, op.multiply, op.maximum, op.minimum, op.power)
    assert [lists(function(a, b)) for function in functions] == [[4, 7], [-2, 3], [3, 10], [3, 5], [1, 2], [1, 25]]


def test_negative_power_of_integers_is_truncated() -> None:
    assert lists(op.power(numbers([2, 1, -1]), numbers(-3))) == [0, 1, -1]


def test_small_integers_wrap_around() -> None:
    assert lists(op.add(const([127], "int8"), const([1], "int8"))) == [-128]


def test_shapes_broadcast_as_in_numpy() -> None:
    left, right = np.arange(6).reshape(2, 3, 1), np.arange(4)
    np.testing.assert_array_equal(value(op.add(const(left), const(right))), left + right)


def test_symbolic_dimension_broadcasts_to_the_known_one() -> None:
    n = ShapeVar("n")
    assert result_type(op.add(tensor(Any(), 3), tensor(2, 1))) == "Tensor[(2, 3), float32]"
    assert result_type(op.add(tensor(Any()), tensor(1))) == "Tensor[(?), float32]"
    assert result_type(op.add(tensor(n, 3), tensor(n, 3))) == "Tensor[(n, 3), float32]"
    assert result_type(op.add(tensor(n), tensor(Any()))) == "Tensor[(?), float32]"


def test_shapes_that_cannot_broadcast_are_rejected() -> None:
    assert refusal(op.multiply(tensor(2, 3), tensor(4))) == (
        "multiply: the shapes (2, 3) and (4,) cannot be broadcast: dimensions must be equal or 1"
    )
    assert "cannot be broadcast" in refusal(op.add(tensor(ShapeVar("n")), tensor(ShapeVar("m"))))


def test_python_operators_build_the_same_calls() -> None:
    x, y = numbers([7, -7]), numbers([2, 2])
    results = [lists(call) for call in (x + y, x - y, x * y, x / y, -x)]
    assert results == [[9, -5], [5, -9], [14, -14], [3, -3], [-7, 7]]
    comparisons = [lists(call) for call in (x < y, x <= y, x > y, x >= y)]
    assert comparisons == [[False, True]] * 2 + [[True, False]] * 2
    assert value(x.astype("float64")).dtype == np.float64
