"""reshape and its codes."""

import numpy as np
import pytest

from apass.relay import op
from apass.relay.ir.expr import const
from apass.relay.op.shape.reshape import reshaped
from apass.relay.ty import Any, Dim, ShapeVar
from tests.relay.op.values import floats, refusal, result_type, tensor, value


@pytest.mark.parametrize(
    ("shape", "newshape", "expected"),
    [
        ((2, 3, 4), (4, 0, 2), (4, 3, 2)),
        ((2, 3, 4), (2, 0, 0), (2, 3, 4)),
        ((2, 3, 4), (6, 1, -1), (6, 1, 4)),
        ((2, 3, 4), (3, -1, 8), (3, 1, 8)),
        ((2, 3, 4), (-1,), (24,)),
        ((2, 3, 4), (-2,), (2, 3, 4)),
        ((2, 3, 4), (2, -2), (2, 3, 4)),
        ((2, 3, 4), (-2, 1, 1), (2, 3, 4, 1, 1)),
        ((2, 3, 4), (-3, 4), (6, 4)),
        ((2, 3, 4, 5), (-3, -3), (6, 20)),
        ((2, 3, 4), (0, -3), (2, 12)),
        ((2, 3, 4), (-3, -2), (6, 4)),
        ((2, 3, 4), (-4, 1, 2, -2), (1, 2, 3, 4)),
        ((2, 3, 4), (2, -4, -1, 3, -2), (2, 1, 3, 4)),
        ((), (1, 1), (1, 1)),
        ((1, 1), (), ()),
        ((0, 3), (0, -1), (0, 3)),
    ],
)
def test_reshape_expands_the_codes(
    shape: tuple[int, ...], newshape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert reshaped(shape, newshape) == expected
    data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    np.testing.assert_array_equal(value(op.reshape(const(data), newshape)), data.reshape(expected))


@pytest.mark.parametrize(
    ("shape", "newshape", "expected"),
    [
        ((Any(), 3), (0, -1), (Any(), 3)),
        ((Any(), 3), (-1,), (Any(),)),
        ((Any(), 3), (-1, 3), (Any(), 3)),
        ((Any(), 4), (0, 2, 2), (Any(), 2, 2)),
        ((Any(), 4), (8, 2), (8, 2)),
        ((Any(), 4), (-3,), (Any(),)),
        ((Any(), 4), (-4, 2, -1, 0), (2, Any(), 4)),
        ((ShapeVar("n"),), (-1,), None),
    ],
)
def test_reshape_keeps_symbolic_dimensions(
    shape: tuple[Dim, ...], newshape: tuple[int, ...], expected: tuple[Dim, ...] | None
) -> None:
    assert reshaped(shape, newshape) == (shape if expected is None else expected)


def test_allowzero_makes_0_a_size() -> None:
    assert result_type(op.reshape(tensor(3, 0), (0, 5), allowzero=True)) == "Tensor[(0, 5), float32]"


def test_new_shape_is_a_number_or_a_constant() -> None:
    assert result_type(op.reshape(tensor(2, 3), 6)) == "Tensor[(6), float32]"
    assert result_type(op.reshape(tensor(2, 3), const([3, -1], "int64"))) == "Tensor[(3, 2), float32]"


@pytest.mark.parametrize(
    ("newshape", "message"),
    [
        ((4, 2), "the shape (2, 3) cannot become (4, 2): the numbers of elements differ"),
        ((4, -1), "-1 cannot be inferred: 4 does not divide the remaining 6 of (2, 3)"),
        ((-1, -1), "only one dimension of the new shape can be -1, got 2"),
        ((-5,), "unknown code -5 in the new shape; the codes are 0, -1, -2, -3 and -4"),
        ((0, 0, 0), "the code 0 in the new shape needs 1 dimensions, but only 0 are left"),
        ((0, -3), "the code -3 in the new shape needs 2 dimensions, but only 1 are left"),
        ((-4, 2), "-4 in the new shape (-4, 2) must be followed by two dimensions"),
        ((-4, -1, -1, 3), "only one of the two dimensions after -4 can be -1, got two"),
        ((0, -4, 2, -1), "a dimension of 3 cannot be split into 2 and -1"),
    ],
)
def test_invalid_new_shape_is_rejected(newshape: tuple[int, ...], message: str) -> None:
    assert refusal(op.reshape(tensor(2, 3), newshape)) == f"reshape: {message}"


@pytest.mark.parametrize(
    ("shape", "newshape", "expected"),
    [
        ((10, 5, 4), (-1, 0), (50, 4)),
        ((2, 3, 4), (0, -3), (2, 12)),
        ((2, 3, 4), (-3, 0), (6, 4)),
        ((6, 4), (-4, 3, 2, 0), (3, 2, 4)),
    ],
)
def test_reverse_reshape_reads_codes_from_the_right(
    shape: tuple[int, ...], newshape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    np.testing.assert_array_equal(value(op.reverse_reshape(const(data), newshape)), data.reshape(expected))


def test_reshape_like_copies_a_part_of_the_shape() -> None:
    assert result_type(op.reshape_like(tensor(2, 6), tensor(3, 4))) == "Tensor[(3, 4), float32]"
    like = op.reshape_like(tensor(1, 2, 3, 4), tensor(6, 2, 2, 3), lhs_begin=1, rhs_end=3)
    assert result_type(like) == "Tensor[(1, 6, 2, 2), float32]"
    assert value(op.reshape_like(floats([[1, 2]]), floats([1, 2]))).shape == (2,)
    assert "the numbers of elements differ" in refusal(op.reshape_like(tensor(2, 3), tensor(4)))
