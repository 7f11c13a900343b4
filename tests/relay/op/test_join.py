"""Tensors that are joined and split."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.expr import Tuple, TupleGetItem
from apass.relay.ir.expr import const, var
from apass.relay.ty import Any, ShapeVar, TensorType, TupleType
from tests.relay.op.values import lists, numbers, refusal, result_type, tensor, value, values

_A, _B = numbers([[1, 2]]), numbers([[3, 4], [5, 6]])


def test_concatenate_joins_tensors_along_an_axis() -> None:
    assert lists(op.concatenate([_A, _B], 0)) == [[1, 2], [3, 4], [5, 6]]
    assert lists(op.concatenate((_B, _B), -1)) == [[3, 4, 3, 4], [5, 6, 5, 6]]


def test_concatenate_accepts_tuples_and_split_results() -> None:
    assert lists(op.concatenate(Tuple([_A, _B]), 0)) == [[1, 2], [3, 4], [5, 6]]
    assert lists(op.concatenate(op.split(_B, 2, 1), 0)) == [[3], [5], [4], [6]]
    pair = var("pair", TupleType([TensorType((2,)), TensorType((3,))]))
    assert result_type(op.concatenate(pair, 0)) == "Tensor[(5), float32]"


def test_joining_no_tensors_is_rejected() -> None:
    with pytest.raises(ValueError, match="concatenate needs at least one tensor, got none"):
        op.concatenate([], 0)
    with pytest.raises(ValueError, match="stack needs at least one tensor, got none"):
        op.stack([], 0)


def test_symbolic_dimensions_follow_from_other_tensors() -> None:
    assert result_type(op.concatenate([tensor(2, Any()), tensor(3, 4)], 0)) == "Tensor[(5, ?), float32]"
    assert result_type(op.concatenate([tensor(Any(), 4), tensor(3, 4)], 0)) == "Tensor[(?, 4), float32]"
    assert result_type(op.concatenate([tensor(Any(), Any()), tensor(3, 4)], 0)) == "Tensor[(?, 4), float32]"
    assert result_type(op.stack([tensor(Any()), tensor(4)], 0)) == "Tensor[(2, ?), float32]"
    assert result_type(op.stack([tensor(4), tensor(Any())], 0)) == "Tensor[(2, 4), float32]"


def test_variables_give_sums_and_quotients() -> None:
    n = ShapeVar("n")
    assert result_type(op.concatenate([tensor(n, 4), tensor(3, n)], 0)) == "Tensor[(n + 3, 4), float32]"
    assert result_type(op.concatenate([tensor(n), tensor(n)], 0)) == "Tensor[(2*n), float32]"
    halves = "(Tensor[(2, n//2), float32], Tensor[(2, n//2), float32])"
    assert result_type(op.split(tensor(2, n), 2, 1)) == halves
    assert result_type(op.split(tensor(n), (3,))) == "(Tensor[(3), float32], Tensor[(n - 3), float32])"


def test_tensors_that_differ_are_rejected() -> None:
    assert refusal(op.concatenate([tensor(2, 3), tensor(2, 4)], 0)) == (
        "concatenate: the tensors differ in axis 1: Tensor[(2, 3), float32] and Tensor[(2, 4), float32]"
    )
    assert refusal(op.concatenate([tensor(2), tensor(2, dtype="int32")], 0)) == (
        "concatenate: the element types differ: Tensor[(2), float32] and Tensor[(2), int32]; cast to one of them"
    )
    assert "with the same number of dimensions" in refusal(op.stack([tensor(2), tensor(2, 3)], 0))
    assert refusal(op.stack([tensor(2)], 2)) == "stack: axis 2 is out of range for 2 dimensions; expected -2 to 1"
    message = "concatenate: data must be a tuple of tensors, got Tensor[(2), float32]"
    assert refusal(op.concatenate(tensor(2), 0)) == message


def test_stack_inserts_a_new_axis() -> None:
    first, second = numbers([1, 2]), numbers([3, 4])
    assert lists(op.stack([first, second], 0)) == [[1, 2], [3, 4]]
    assert lists(op.stack([first, second], -1)) == [[1, 3], [2, 4]]


def test_split_into_equal_parts() -> None:
    parts = op.split(const(np.arange(6)), 3)
    assert len(parts) == 3
    assert [part.tolist() for part in values(parts)] == [[0, 1], [2, 3], [4, 5]]
    assert lists(parts[1]) == [2, 3]
    assert result_type(op.split(tensor(Any(), 2), 2)) == "(Tensor[(?, 2), float32], Tensor[(?, 2), float32])"


def test_split_at_positions() -> None:
    parts = op.split(const(np.arange(10).reshape(2, 5)), [1, 1, 4], axis=-1)
    assert [part.shape for part in values(parts)] == [(2, 1), (2, 0), (2, 3), (2, 1)]
    assert result_type(op.split(tensor(Any(), 5), [2], 1)) == "(Tensor[(?, 2), float32], Tensor[(?, 3), float32])"
    assert [value(part).shape for part in parts] == [(2, 1), (2, 0), (2, 3), (2, 1)]


def test_split_rejects_positions_that_do_not_fit() -> None:
    assert refusal(op.split(tensor(5), 2)) == "split: 5 elements cannot be split into 2 equal parts"
    message = "split: 5 elements cannot be split at (3, 2); the positions must ascend up to 5"
    assert refusal(op.split(tensor(5), [3, 2])) == message
    assert "cannot be split at (6,)" in refusal(op.split(tensor(5), [6]))


def test_split_parts_are_fields_of_one_call() -> None:
    first, second = op.split(tensor(4), 2)
    assert isinstance(first, TupleGetItem)
    assert first.tuple_value is second.tuple_value
