"""Order, and places of elements."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.expr import Call
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import Any
from tests.relay.op.values import bools, floats, lists, numbers, refusal, result_type, tensor, value, values

_FEW = st.lists(st.integers(-3, 3), min_size=1, max_size=12)


@given(data=_FEW, ascend=st.booleans())
def test_sort_is_that_of_python(data: list[int], ascend: bool) -> None:
    assert lists(op.sort(numbers(data), is_ascend=ascend)) == sorted(data, reverse=not ascend)


@given(data=_FEW, ascend=st.booleans())
def test_equal_elements_keep_their_order(data: list[int], ascend: bool) -> None:
    expected = sorted(range(len(data)), key=lambda place: data[place] if ascend else -data[place])
    assert lists(op.argsort(numbers(data), is_ascend=ascend)) == expected


@given(data=_FEW, k=st.integers(0, 5))
def test_topk_is_the_beginning_of_the_order(data: list[int], k: int) -> None:
    count = min(k, len(data))
    kept = count or len(data)
    greatest, places = values(op.topk(numbers(data), count))
    assert greatest.tolist() == sorted(data, reverse=True)[:kept]
    assert [data[place] for place in places] == greatest.tolist()


def test_sorts_go_along_an_axis() -> None:
    data = floats([[3, 1], [2, 4]])
    assert lists(op.sort(data, 0)) == [[2, 1], [3, 4]]
    assert lists(op.argsort(data, 1, 0, "int64")) == [[0, 1], [1, 0]]
    assert result_type(op.argsort(tensor(2, Any()))) == "Tensor[(2, ?), int32]"


def test_topk_returns_what_is_asked_for() -> None:
    data = tensor(3, 5)
    both = op.topk(data, 2)
    assert isinstance(both, TupleWrapper)
    assert result_type(both) == "(Tensor[(3, 2), float32], Tensor[(3, 2), int32])"
    only = op.topk(data, 2, 0, "values")
    assert isinstance(only, Call)
    assert result_type(only) == "Tensor[(2, 5), float32]"
    assert result_type(op.topk(data, 0, ret_type="indices", dtype="int64")) == "Tensor[(3, 5), int64]"
    assert "there are only 5 elements along axis 1" in refusal(op.topk(data, 6))
    assert "ret_type is 'all'" in refusal(op.topk(data, 1, ret_type="all"))


def test_searchsorted_goes_before_or_behind_equal_elements() -> None:
    data, sought = floats([1, 2, 2, 3]), floats([[2.0, 0.0], [9.0, 2.5]])
    assert lists(op.searchsorted(data, sought)) == [[1, 0], [4, 3]]
    assert lists(op.searchsorted(data, sought, right=True)) == [[3, 0], [4, 3]]
    rows = floats([[1, 2], [3, 4]])
    assert lists(op.searchsorted(rows, floats([[2], [2]]))) == [[1], [0]]
    assert "outer dimensions" in refusal(op.searchsorted(tensor(2, 2), tensor(2)))


def test_argwhere_lists_places_whose_number_is_not_known() -> None:
    assert lists(op.argwhere(bools([[True, False], [False, True]]))) == [[0, 0], [1, 1]]
    assert result_type(op.argwhere(tensor(2, 3))) == "Tensor[(?, 2), int32]"


def test_unravel_index_gives_a_row_for_each_axis() -> None:
    assert lists(op.unravel_index(numbers([22, 41, 37]), numbers([7, 6]))) == [[3, 6, 6], [4, 5, 1]]
    assert lists(op.unravel_index(numbers(5), numbers([2, 3]))) == [1, 2]


def test_unique_sorted_or_in_order_of_occurrence() -> None:
    data = numbers([4, 5, 1, 2, 3, 3, 4, 5])
    found = [one.tolist() for one in values(op.unique(data, True, True))]
    assert found == [
        [1, 2, 3, 4, 5, 0, 0, 0],
        [2, 3, 4, 0, 1, 0, 0, 0],
        [3, 4, 0, 1, 2, 2, 3, 4],
        [5],
        [1, 1, 2, 2, 2, 0, 0, 0],
    ]
    found = [one.tolist() for one in values(op.unique(data, False))]
    assert found == [[4, 5, 1, 2, 3, 0, 0, 0], [0, 1, 2, 3, 4, 0, 0, 0], [0, 1, 2, 3, 4, 4, 0, 1], [5]]


@given(data=st.permutations(range(6)))
def test_invert_permutation_undoes(data: list[int]) -> None:
    inverse = value(op.invert_permutation(numbers(data)))
    assert np.asarray(data)[inverse].tolist() == list(range(6))
