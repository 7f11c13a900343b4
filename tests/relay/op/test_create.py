"""Tensors that are created, broadcast and summed, and their shapes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.ir.expr import const, var
from apass.relay.ty import Any
from tests.relay.op.values import floats, lists, numbers, refusal, result_type, tensor, value, values

_NUMBER = st.integers(-20, 20)


def test_constant_fills_have_shape_and_type() -> None:
    assert lists(op.zeros((2, 1), "int32")) == [[0], [0]]
    assert lists(op.ones(2, "float32")) == [1, 1]
    assert lists(op.full(numbers(7), const([2]))) == [7, 7]
    assert value(op.full(numbers(7), (), "float64")).dtype == np.float64
    assert lists(op.full_like(floats([[1, 2]]), numbers(3))) == [[3, 3]]
    assert refusal(op.full(tensor(2), (2,), "int32")) == refusal(op.full(tensor(2), (2,)))
    assert refusal(op.full(tensor(2), (2,))) == "full: fill_value must be a scalar, got Tensor[(2), float32]"


@given(start=_NUMBER, stop=_NUMBER, step=_NUMBER.filter(bool))
def test_arange_agrees_with_numpy_and_its_type(start: int, stop: int, step: int) -> None:
    call = op.arange(start, stop, step, "int64")
    expected = np.arange(start, stop, step)
    assert lists(call) == expected.tolist()
    assert result_type(call) == f"Tensor[({len(expected)}), int64]"


def test_arange_has_defaults_and_accepts_expressions() -> None:
    assert lists(op.arange(numbers(3), dtype="int32")) == [0, 1, 2]
    assert lists(op.arange(const(1.0), const(5.0), const(1.5))) == [1, 2.5, 4]
    assert result_type(op.arange(var("n", "int32"), dtype="int32")) == "Tensor[(?), int32]"
    assert refusal(op.arange(0, 3, 0)) == "arange: step must not be 0"


def test_meshgrid_broadcasts_vectors_over_the_grid() -> None:
    grid = values(op.meshgrid([numbers([1, 2, 3]), numbers([4, 5])]))
    assert [array.tolist() for array in grid] == [[[1, 1], [2, 2], [3, 3]], [[4, 5], [4, 5], [4, 5]]]
    grid = values(op.meshgrid([numbers([1, 2, 3]), numbers([4, 5])], "xy"))
    assert [array.tolist() for array in grid] == [[[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]]]
    assert result_type(op.meshgrid([tensor(Any()), tensor()])) == "(Tensor[(?, 1), float32], Tensor[(?, 1), float32])"


def test_broadcast_to_repeats_along_new_axes() -> None:
    assert lists(op.broadcast_to(numbers([[1], [2]]), (2, 2, 2))) == [[[1, 1], [2, 2]]] * 2
    assert lists(op.broadcast_to_like(numbers(5), numbers([1, 2]))) == [5, 5]
    assert refusal(op.broadcast_to(tensor(2, 3), (3,))) == "broadcast_to: (2, 3) cannot be broadcast to (3,)"
    assert "broadcast_to: " in refusal(op.broadcast_to(tensor(2), (3,)))


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (4,), (1,), (2, 1, 4), ()])
def test_collapse_sum_to_reverses_a_broadcast(shape: tuple[int, ...]) -> None:
    data = np.ones((2, 3, 4), "float32")
    expected = np.full(shape, 24 / np.prod(shape), "float32")
    np.testing.assert_array_equal(value(op.collapse_sum_to(const(data), shape)), expected)
    np.testing.assert_array_equal(value(op.collapse_sum_like(const(data), const(expected))), expected)


def test_computed_shape_is_absent_from_the_type() -> None:
    call = op.collapse_sum_to(tensor(2, 3), var("shape", shape=(1,), dtype="int32"))
    assert result_type(call) == "Tensor[(?), float32]"
    assert "cannot be broadcast" in refusal(op.collapse_sum_to(tensor(2, 3), (2,)))


def test_repeat_and_tile_repeat_elements_and_tensors() -> None:
    data = numbers([[1, 2], [3, 4]])
    assert lists(op.repeat(data, 2, None)) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert lists(op.repeat(data, 2, 1)) == [[1, 1, 2, 2], [3, 3, 4, 4]]
    assert lists(op.tile(data, (1, 2))) == [[1, 2, 1, 2], [3, 4, 3, 4]]
    assert lists(op.tile(data, 2)) == [[1, 2, 1, 2], [3, 4, 3, 4]]
    assert result_type(op.tile(tensor(Any(), 2), (3, 1, 2))) == "Tensor[(3, ?, 4), float32]"
    assert refusal(op.tile(tensor(2), (0,))) == "tile: reps must be 1 or more, got (0,)"
    assert refusal(op.repeat(tensor(2), 0, 0)) == "repeat: repeats must be 1 or more, got 0"


def test_shape_of_and_ndarray_size_return_sizes() -> None:
    data = const(np.zeros((2, 3, 4)))
    assert lists(op.shape_of(data)) == [2, 3, 4]
    assert lists(op.ndarray_size(data, "int64")) == 24
    assert result_type(op.shape_of(tensor(Any(), 2), "int64")) == "Tensor[(2), int64]"
    assert result_type(op.ndarray_size(tensor(Any()))) == "int32"
