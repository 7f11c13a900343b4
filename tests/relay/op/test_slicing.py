"""Slices with the meaning of Python's."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.ty import Any
from tests.relay.op.values import lists, numbers, refusal, result_type, tensor, value

_DATA = np.arange(12).reshape(3, 4)
_BOUND = st.integers(-8, 8)


@given(begin=_BOUND, end=_BOUND, stride=_BOUND.filter(bool))
def test_strided_slice_agrees_with_python(begin: int, end: int, stride: int) -> None:
    result = value(op.strided_slice(const(np.arange(6)), [begin], [end], [stride]))
    assert result.tolist() == list(range(6))[begin:end:stride]


def test_strided_slice_of_several_axes() -> None:
    data = const(_DATA)
    np.testing.assert_array_equal(value(op.strided_slice(data, [0, 1], [2, 4], [1, 2])), _DATA[0:2, 1:4:2])
    np.testing.assert_array_equal(value(op.strided_slice(data, [1], [3])), _DATA[1:3])
    np.testing.assert_array_equal(value(op.strided_slice(data, [0, 3], [3, -5], [2, -1])), _DATA[::2, ::-1])
    np.testing.assert_array_equal(value(op.strided_slice(data, [0, 1], [3, 3], [2])), _DATA[::2, 1:3])


def test_strided_slice_of_named_axes() -> None:
    call = op.strided_slice(const(_DATA), [1], [3], axes=[-1])
    np.testing.assert_array_equal(value(call), _DATA[:, 1:3])
    assert result_type(op.strided_slice(tensor(Any(), 4), [1], [3], axes=[1])) == "Tensor[(?, 2), float32]"


def test_slice_mode_size_makes_end_a_size() -> None:
    data = const(_DATA)
    sized = op.strided_slice(data, [0, 1], [2, -1], [5, 5], slice_mode="size")
    np.testing.assert_array_equal(value(sized), _DATA[0:2, 1:])
    from_the_end = op.strided_slice(data, [-2, -3], [3, 2], slice_mode="size")
    np.testing.assert_array_equal(value(from_the_end), _DATA[1:, 1:3])


def test_missing_bound_leaves_a_slice_open() -> None:
    data = const(_DATA)
    np.testing.assert_array_equal(value(op.strided_slice(data, [1, 1], [3])), _DATA[1:3, 1:])
    np.testing.assert_array_equal(value(op.strided_slice(data, [1], [3, -1], [1, -1])), _DATA[1:3, :-1:-1])
    np.testing.assert_array_equal(value(op.strided_slice(data, [], [])), _DATA)


def test_slice_bounds_accept_constants() -> None:
    call = op.strided_slice(const(_DATA), const([1, 0], "int64"), const([2, 2], "int64"))
    np.testing.assert_array_equal(value(call), _DATA[1:2, :2])


def test_slice_bounds_that_do_not_fit_are_rejected() -> None:
    assert "must have the same length, at most 2" in refusal(op.strided_slice(tensor(4, 4), [0, 0], [1], axes=[0, 1]))
    assert refusal(op.strided_slice(tensor(4), [0, 0], [1, 1])) == (
        "strided_slice: begin (0, 0), end (1, 1) and axes (0, 1) must have the same length, "
        "at most 1, the number of dimensions"
    )
    assert "strides must not be 0" in refusal(op.strided_slice(tensor(4), [0], [1], [0]))
    assert "end or size, got (1,) and 'begin'" in refusal(op.strided_slice(tensor(4), [0], [1], slice_mode="begin"))


def test_strided_set_replaces_a_slice() -> None:
    call = op.strided_set(const(_DATA.astype("int32")), numbers([[-1, -2], [-3, -4]]), [0, 1], [3, 3], [2, 1])
    assert lists(call) == [[0, -1, -2, 3], [4, 5, 6, 7], [8, -3, -4, 11]]
    assert "v must have the 2 dimensions of the data" in refusal(op.strided_set(tensor(2, 2), tensor(2), [0], [1]))


def test_slice_like_shortens_axes_to_another_tensor() -> None:
    np.testing.assert_array_equal(value(op.slice_like(const(_DATA), const(np.zeros((2, 3))))), _DATA[:2, :3])
    np.testing.assert_array_equal(value(op.slice_like(const(_DATA), const(np.zeros((2, 3))), [-1])), _DATA[:, :3])
    assert result_type(op.slice_like(tensor(5, 6, 7), tensor(2, 3), [0, 1])) == "Tensor[(2, 3, 7), float32]"
    message = "slice_like: (2, 3) is shorter than (4, 3); slice_like cannot lengthen an axis"
    assert refusal(op.slice_like(tensor(2, 3), tensor(4, 3))) == message
    assert result_type(op.slice_like(tensor(2, 3), tensor(1))) == "Tensor[(1, 3), float32]"
    assert result_type(op.slice_like(tensor(2, 3), tensor(1, 2, 3))) == "Tensor[(1, 2), float32]"
    np.testing.assert_array_equal(value(op.slice_like(const(_DATA), const(np.zeros(2)))), _DATA[:2])
    assert "has no axes (0, 1) to shorten" in refusal(op.slice_like(tensor(2, 3), tensor(2), [0, 1]))
