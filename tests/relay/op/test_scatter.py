"""Operators that write at indices, and sequences of different lengths."""

import numpy as np

from apass.relay import op
from apass.relay.ir.expr import const
from tests.relay.op.values import floats, lists, numbers, refusal, result_type, tensor, value

_ZEROS = floats([[0, 0, 0], [0, 0, 0]])


def test_scatter_replaces_along_an_axis() -> None:
    indices, updates = numbers([[1, 0, 1]]), floats([[1, 2, 3]])
    assert lists(op.scatter(_ZEROS, indices, updates, 0)) == [[0, 2, 0], [1, 0, 3]]
    assert lists(op.scatter(_ZEROS, numbers([[2], [-3]]), floats([[5], [6]]), 1)) == [[0, 0, 5], [6, 0, 0]]


def test_scatter_add_sums_updates_of_equal_indices() -> None:
    assert lists(op.scatter_add(floats([1, 1]), numbers([0, 0, 1]), floats([1, 2, 3]), 0)) == [4, 4]


def test_scatter_rejects_operands_of_other_shapes() -> None:
    assert "indices and updates must have the same shape" in refusal(op.scatter(tensor(4), tensor(2), tensor(3), 0))
    assert "as many dimensions" in refusal(op.scatter_add(tensor(4), tensor(2, 2), tensor(3), 0))


def test_scatter_nd_replaces_or_adds_at_columns() -> None:
    indices, updates = numbers([[0, 1, 0], [1, 2, 1]]), floats([1, 2, 3])
    assert lists(op.scatter_nd(_ZEROS, indices, updates)) == [[0, 3, 0], [0, 0, 2]]
    assert lists(op.scatter_nd(_ZEROS, indices, updates, "add")) == [[0, 4, 0], [0, 0, 2]]
    assert lists(op.scatter_nd(_ZEROS, numbers([[1]]), floats([[7, 8, 9]]))) == [[0, 0, 0], [7, 8, 9]]
    message = "scatter_nd: the updates must have the shape (1, 3), got Tensor[(3), float32]"
    assert refusal(op.scatter_nd(tensor(2, 3), tensor(1, 1), tensor(3))) == message
    assert "mode must be update or add, got 'mul'" in refusal(op.scatter_nd(tensor(2), tensor(1, 1), tensor(1), "mul"))


def test_one_hot_inserts_a_new_axis_anywhere() -> None:
    on, off = numbers(5), numbers(-1)
    assert lists(op.one_hot(numbers([0, 2, 7]), on, off, 3, -1, "int32")) == [[5, -1, -1], [-1, -1, 5], [-1, -1, -1]]
    assert lists(op.one_hot(numbers([0, 2]), on, off, const(3), 0, "int32")) == [[5, -1], [-1, -1], [-1, 5]]
    assert result_type(op.one_hot(tensor(2, 3), tensor(), tensor(), 4, 1, "int8")) == "Tensor[(2, 4, 3), int8]"
    assert "must be scalars" in refusal(op.one_hot(tensor(2), tensor(1), tensor(), 4, 1, ""))


def test_sparse_to_dense_writes_values_at_rows() -> None:
    dense = op.sparse_to_dense(numbers([[0, 0], [1, 1]]), [2, 2], numbers([3, 4]))
    assert lists(dense) == [[3, 0], [0, 4]]
    assert lists(op.sparse_to_dense(numbers([1, 3]), [5], numbers([7, 8]), numbers(-1))) == [-1, 7, -1, 8, -1]


def test_matrix_set_diag_replaces_the_main_diagonal() -> None:
    data = const(np.full((2, 3, 4), 7))
    expected = [[[1, 7, 7, 7], [7, 2, 7, 7], [7, 7, 3, 7]], [[4, 7, 7, 7], [7, 5, 7, 7], [7, 7, 6, 7]]]
    assert lists(op.matrix_set_diag(data, numbers([[1, 2, 3], [4, 5, 6]]))) == expected


def test_matrix_set_diag_aligns_short_diagonals_of_bands() -> None:
    data, band = const(np.zeros((3, 3), "int32")), [[0, 9, 8], [1, 2, 3], [4, 5, 0]]
    expected = [[1, 9, 0], [4, 2, 8], [0, 5, 3]]
    assert lists(op.matrix_set_diag(data, numbers(band), (-1, 1))) == expected
    other = [[9, 8, 0], [1, 2, 3], [0, 4, 5]]
    assert lists(op.matrix_set_diag(data, numbers(other), (-1, 1), "LEFT_RIGHT")) == expected
    message = "matrix_set_diag: the diagonals must have the shape (3, 3), got Tensor[(3), float32]"
    assert refusal(op.matrix_set_diag(tensor(3, 3), tensor(3), (-1, 1))) == message
    assert "has no diagonal" in refusal(op.matrix_set_diag(tensor(3, 3), tensor(1), 3))


def test_reverse_sequence_reverses_the_start_of_sequences() -> None:
    data = const(np.arange(16).reshape(4, 4))
    by_column = [[0, 5, 10, 15], [4, 1, 6, 11], [8, 9, 2, 7], [12, 13, 14, 3]]
    by_row = [[0, 1, 2, 3], [5, 4, 6, 7], [10, 9, 8, 11], [15, 14, 13, 12]]
    assert lists(op.reverse_sequence(data, numbers([1, 2, 3, 4]), 0, 1)) == by_column
    assert lists(op.reverse_sequence(data, numbers([1, 2, 3, 9]), 1, 0)) == by_row
    assert "got 0 for both" in refusal(op.reverse_sequence(tensor(2, 2), tensor(2), 0, 0))
    assert "expected a length for each position" in refusal(op.reverse_sequence(tensor(2, 2), tensor(3)))


def test_sequence_mask_replaces_elements_after_the_end() -> None:
    data = const(np.arange(1, 19, dtype="float32").reshape(3, 2, 3))
    masked = value(op.sequence_mask(data, numbers([2, 3]), 0.5))
    expected = np.arange(1, 19, dtype="float32").reshape(3, 2, 3)
    expected[2, 0] = 0.5
    np.testing.assert_array_equal(masked, expected)
    assert lists(op.sequence_mask(numbers([[1, 2, 3], [4, 5, 6]]), numbers([1, 2]), axis=1)) == [[1, 0, 0], [4, 5, 0]]
    assert "axis must be 0 or 1" in refusal(op.sequence_mask(tensor(2, 2), tensor(2), axis=2))
