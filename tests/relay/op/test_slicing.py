"""Slices: they mean what Python's mean."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.make import const
from apass.relay.ty import Any
from tests.relay.op.values import lists, numbers, refusal, result_type, tensor, value

_DATA = np.arange(12).reshape(3, 4)
_PLACE = st.integers(-8, 8)


@given(begin=_PLACE, end=_PLACE, stride=_PLACE.filter(bool))
def test_a_slice_is_that_of_python(begin: int, end: int, stride: int) -> None:
    made = value(op.strided_slice(const(np.arange(6)), [begin], [end], [stride]))
    assert made.tolist() == list(range(6))[begin:end:stride]


def test_slices_of_several_axes() -> None:
    data = const(_DATA)
    np.testing.assert_array_equal(value(op.strided_slice(data, [0, 1], [2, 4], [1, 2])), _DATA[0:2, 1:4:2])
    np.testing.assert_array_equal(value(op.strided_slice(data, [1], [3])), _DATA[1:3])
    np.testing.assert_array_equal(value(op.strided_slice(data, [0, 3], [3, -5], [2, -1])), _DATA[::2, ::-1])
    np.testing.assert_array_equal(value(op.strided_slice(data, [0, 1], [3, 3], [2])), _DATA[::2, 1:3])


def test_axes_say_which_are_sliced() -> None:
    made = op.strided_slice(const(_DATA), [1], [3], axes=[-1])
    np.testing.assert_array_equal(value(made), _DATA[:, 1:3])
    assert result_type(op.strided_slice(tensor(Any(), 4), [1], [3], axes=[1])) == "Tensor[(?, 2), float32]"


def test_an_end_may_be_a_size() -> None:
    data = const(_DATA)
    sized = op.strided_slice(data, [0, 1], [2, -1], [5, 5], slice_mode="size")
    np.testing.assert_array_equal(value(sized), _DATA[0:2, 1:])
    from_the_end = op.strided_slice(data, [-2, -3], [3, 2], slice_mode="size")
    np.testing.assert_array_equal(value(from_the_end), _DATA[1:, 1:3])


def test_where_places_are_missing_a_slice_is_open() -> None:
    data = const(_DATA)
    np.testing.assert_array_equal(value(op.strided_slice(data, [1, 1], [3])), _DATA[1:3, 1:])
    np.testing.assert_array_equal(value(op.strided_slice(data, [1], [3, -1], [1, -1])), _DATA[1:3, :-1:-1])
    np.testing.assert_array_equal(value(op.strided_slice(data, [], [])), _DATA)


def test_places_may_be_constants() -> None:
    made = op.strided_slice(const(_DATA), const([1, 0], "int64"), const([2, 2], "int64"))
    np.testing.assert_array_equal(value(made), _DATA[1:2, :2])


def test_places_that_do_not_fit_are_refused() -> None:
    assert "do not fit 2 dimensions" in refusal(op.strided_slice(tensor(4, 4), [0, 0], [1], axes=[0, 1]))
    assert refusal(op.strided_slice(tensor(4), [0, 0], [1, 1])) == (
        "strided_slice: begin (0, 0), end (1, 1), axes (0, 1) do not fit 1 dimensions; "
        "give as many of each, at most one for a dimension"
    )
    assert "strides (0,) must not be 0" in refusal(op.strided_slice(tensor(4), [0], [1], [0]))
    assert "slice_mode 'begin' be end or size" in refusal(op.strided_slice(tensor(4), [0], [1], slice_mode="begin"))


def test_strided_set_replaces_a_slice() -> None:
    made = op.strided_set(const(_DATA.astype("int32")), numbers([[-1, -2], [-3, -4]]), [0, 1], [3, 3], [2, 1])
    assert lists(made) == [[0, -1, -2, 3], [4, 5, 6, 7], [8, -3, -4, 11]]
    assert "v must have the 2 dimensions of the data" in refusal(op.strided_set(tensor(2, 2), tensor(2), [0], [1]))


def test_slice_like_cuts_to_the_size_of_another() -> None:
    np.testing.assert_array_equal(value(op.slice_like(const(_DATA), const(np.zeros((2, 3))))), _DATA[:2, :3])
    np.testing.assert_array_equal(value(op.slice_like(const(_DATA), const(np.zeros((2, 3))), [-1])), _DATA[:, :3])
    assert result_type(op.slice_like(tensor(5, 6, 7), tensor(2, 3), [0, 1])) == "Tensor[(2, 3, 7), float32]"
    message = "slice_like: (2, 3) has not enough elements to be cut to (4, 3)"
    assert refusal(op.slice_like(tensor(2, 3), tensor(4, 3))) == message
    assert "cannot be cut along the axes (0, 1)" in refusal(op.slice_like(tensor(2, 3), tensor(2)))
