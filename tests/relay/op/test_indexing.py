"""Elements selected by conditions and by indices."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.ty import Any
from tests.relay.op.values import floats, lists, numbers, refusal, result_type, tensor, value

_DATA = np.arange(24).reshape(2, 3, 4)


def test_where_broadcasts_and_treats_nonzero_as_true() -> None:
    x, y = numbers([[1, 2], [3, 4]]), numbers([[5, 6], [7, 8]])
    assert lists(op.where(numbers([[0, 1], [-1, 0]]), x, y)) == [[5, 2], [3, 8]]
    assert lists(op.where(numbers([[1], [0]]), x, y)) == [[1, 2], [7, 8]]
    assert lists(op.where(const(True), x, numbers(0))) == [[1, 2], [3, 4]]
    assert "the element types differ" in refusal(op.where(tensor(2), tensor(2), tensor(2, dtype="int8")))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_take_agrees_with_numpy(axis: int) -> None:
    indices = np.array([[1, 0, 1], [0, 1, 1]], "int32")
    result = value(op.take(const(_DATA), const(indices), axis))
    np.testing.assert_array_equal(result, np.take(_DATA, indices, axis))


def test_take_mode_decides_about_indices_out_of_bounds() -> None:
    data, indices = floats([10, 11, 12]), numbers([-1, 0, 4])
    assert lists(op.take(data, indices)) == [10, 10, 12]
    assert lists(op.take(data, indices, axis=0, mode="wrap")) == [12, 10, 11]
    assert refusal(op.take(tensor(2), tensor(dtype="int32"), mode="best")) == (
        "take: mode must be clip, wrap or fast, got 'best'"
    )


def test_take_without_axis_indexes_the_flattened_tensor() -> None:
    assert lists(op.take(const(_DATA), numbers([[0, 23], [5, 7]]))) == [[0, 23], [5, 7]]


def test_take_with_batch_dims_indexes_each_batch() -> None:
    indices = np.array([[2, 0], [1, 1]])
    result = value(op.take(const(_DATA), const(indices), axis=1, batch_dims=1))
    np.testing.assert_array_equal(result, np.stack([_DATA[0][[2, 0]], _DATA[1][[1, 1]]]))
    result = value(op.take(const(_DATA), const(indices), axis=2, batch_dims=1))
    np.testing.assert_array_equal(result, np.stack([_DATA[0][:, [2, 0]], _DATA[1][:, [1, 1]]]))
    assert "choose a later axis" in refusal(op.take(tensor(2, 3), tensor(2, 1), axis=0, batch_dims=1))


def test_take_type_combines_both_shapes() -> None:
    assert result_type(op.take(tensor(5, Any()), tensor(2, 3, dtype="int32"), 0)) == "Tensor[(2, 3, ?), float32]"
    assert result_type(op.take(tensor(5, 6), tensor(dtype="int32"), 1)) == "Tensor[(5), float32]"


def test_gather_returns_one_element_for_each_index() -> None:
    assert lists(op.gather(numbers([[1, 2], [3, 4]]), 1, numbers([[0, 0], [1, 0]]))) == [[1, 1], [4, 3]]
    assert lists(op.gather(numbers([[1, 2], [3, 4]]), 0, numbers([[1, 0]]))) == [[3, 2]]
    assert "exceed the data" in refusal(op.gather(tensor(2, 2), 0, tensor(2, 3, dtype="int32")))
    assert "must have the 2 dimensions" in refusal(op.gather(tensor(2, 2), 0, tensor(2, dtype="int32")))


def test_gather_nd_indexes_by_columns() -> None:
    assert lists(op.gather_nd(numbers([[0, 1], [2, 3]]), numbers([[1, 1, 0], [0, 1, 0]]))) == [2, 3, 0]
    data = numbers([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    assert lists(op.gather_nd(data, numbers([[0, 1], [1, 0]]))) == [[3, 4], [5, 6]]
    data = numbers([[[0, 1], [2, 3]], [[4, 5], [6, 7]]])
    assert lists(op.gather_nd(data, numbers([[1, 0]]), batch_dims=1)) == [[2, 3], [4, 5]]
    assert "set index_rank" in refusal(op.gather_nd(tensor(2, 2), tensor(Any(), 3, dtype="int32")))
    with_rank = op.gather_nd(tensor(2, 2), tensor(Any(), 3, dtype="int32"), index_rank=1)
    assert result_type(with_rank) == "Tensor[(3, 2), float32]"


def test_adv_index_agrees_with_numpy() -> None:
    rows, columns = np.array([[0], [1]]), np.array([2, 0])
    result = value(op.adv_index([const(_DATA), const(rows), const(columns)]))
    np.testing.assert_array_equal(result, _DATA[rows, columns])
    assert "takes from 1 to 2 indices, got 3" in refusal(op.adv_index([tensor(2, 2), *[tensor(1)] * 3]))
