"""Sorting, searching and positions of elements."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.expr import Call
from apass.relay.ir.expr import TupleWrapper
from apass.relay.ty import Any
from tests.relay.op.values import bools, floats, lists, numbers, refusal, result_type, tensor, value, values

_FEW = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(data=_FEW, ascend=st.booleans())
def test_sort_agrees_with_python(data: list[int], ascend: bool) -> None:
    assert lists(op.sort(numbers(data), is_ascend=ascend)) == sorted(data, reverse=not ascend)


@given(data=_FEW, ascend=st.booleans())
def test_equal_elements_keep_their_order(data: list[int], ascend: bool) -> None:
    expected = sorted(range(len(data)), key=lambda index: data[index] if ascend else -data[index])
    assert lists(op.argsort(numbers(data), is_ascend=ascend)) == expected


@given(data=_FEW, k=st.integers(0, 5))
def test_topk_is_the_start_of_the_order(data: list[int], k: int) -> None:
    count = min(k, len(data))
    expected_count = count or len(data)
    largest, indices = values(op.topk(numbers(data), count))
    assert largest.tolist() == sorted(data, reverse=True)[:expected_count]
    assert [data[index] for index in indices] == largest.tolist()


def test_sort_orders_along_an_axis() -> None:
    data = floats([[3, 1], [2, 4]])
    assert lists(op.sort(data, 0)) == [[2, 1], [3, 4]]
    assert lists(op.argsort(data, 1, 0, "int64")) == [[0, 1], [1, 0]]
    assert result_type(op.argsort(tensor(2, Any()))) == "Tensor[(2, ?), int32]"


def test_topk_returns_the_requested_results() -> None:
    data = tensor(3, 5)
    both = op.topk(data, 2)
    assert isinstance(both, TupleWrapper)
    assert result_type(both) == "(Tensor[(3, 2), float32], Tensor[(3, 2), int32])"
    only = op.topk(data, 2, 0, "values")
    assert isinstance(only, Call)
    assert result_type(only) == "Tensor[(2, 5), float32]"
    assert result_type(op.topk(data, 0, ret_type="indices", dtype="int64")) == "Tensor[(3, 5), int64]"
    assert "the top 6 elements are requested, but axis 1" in refusal(op.topk(data, 6))
    assert "got 'all'" in refusal(op.topk(data, 1, ret_type="all"))


def test_searchsorted_inserts_before_or_after_equal_elements() -> None:
    data, sought = floats([1, 2, 2, 3]), floats([[2.0, 0.0], [9.0, 2.5]])
    assert lists(op.searchsorted(data, sought)) == [[1, 0], [4, 3]]
    assert lists(op.searchsorted(data, sought, right=True)) == [[3, 0], [4, 3]]
    rows = floats([[1, 2], [3, 4]])
    assert lists(op.searchsorted(rows, floats([[2], [2]]))) == [[1], [0]]
    assert "outer dimensions" in refusal(op.searchsorted(tensor(2, 2), tensor(2)))


def test_argwhere_has_a_symbolic_number_of_rows() -> None:
    assert lists(op.argwhere(bools([[True, False], [False, True]]))) == [[0, 0], [1, 1]]
    assert result_type(op.argwhere(tensor(2, 3))) == "Tensor[(?, 2), int32]"


def test_unravel_index_returns_a_row_for_each_axis() -> None:
    assert lists(op.unravel_index(numbers([22, 41, 37]), numbers([7, 6]))) == [[3, 6, 6], [4, 5, 1]]
    assert lists(op.unravel_index(numbers(5), numbers([2, 3]))) == [1, 2]


def test_unique_is_sorted_or_in_occurrence_order() -> None:
    data = numbers([4, 5, 1, 2, 3, 3, 4, 5])
    results = [result.tolist() for result in values(op.unique(data, True, True))]
    assert results == [
        [1, 2, 3, 4, 5, 0, 0, 0],
        [2, 3, 4, 0, 1, 0, 0, 0],
        [3, 4, 0, 1, 2, 2, 3, 4],
        [5],
        [1, 1, 2, 2, 2, 0, 0, 0],
    ]
    results = [result.tolist() for result in values(op.unique(data, False))]
    assert results == [[4, 5, 1, 2, 3, 0, 0, 0], [0, 1, 2, 3, 4, 0, 0, 0], [0, 1, 2, 3, 4, 4, 0, 1], [5]]


@given(data=st.permutations(range(6)))
def test_invert_permutation_is_the_inverse(data: list[int]) -> None:
    inverse = value(op.invert_permutation(numbers(data)))
    assert np.asarray(data)[inverse].tolist() == list(range(6))
