"""Computed shapes: ranks are known, and values agree with static shapes."""

import typing
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from apass.relay import op
from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, Expr, Op, Tuple, Var
from apass.relay.interpreter.evaluate import Value, evaluate
from apass.relay.ir.expr import TupleWrapper, const, var
from apass.relay.ir.ndarray import Array
from apass.relay.ty import Any
from tests.helpers.relay.meaning import ops_of, optimized
from tests.relay.op.values import floats, numbers, refusal, result_type, tensor

_DATA = const(np.arange(24, dtype="float32").reshape(2, 3, 4))
_ONES = const(np.ones((2, 1, 4, 1), "float32"))
_IMAGES = const(np.arange(24, dtype="float32").reshape(1, 2, 3, 4))
_INDICES = numbers([[0, 2], [1, 5]])

Built = Expr | TupleWrapper
Numbers = typing.Any
"""Numbers, or a variable for them."""

_CASES: Sequence[tuple[Callable[[Numbers], Built], int | list[int] | list[list[int]], str]] = [
    (lambda shape: op.reshape(_DATA, shape), [0, -1, 2], "Tensor[(?, ?, ?), float32]"),
    (lambda reps: op.tile(_DATA, reps), [2, 1, 1, 2], "Tensor[(?, ?, ?, ?), float32]"),
    (lambda reps: op.tile(_DATA, reps), [2], "Tensor[(?, ?, ?), float32]"),
    (lambda shape: op.broadcast_to(_DATA, shape), [5, 2, 3, 4], "Tensor[(?, ?, ?, ?), float32]"),
    (lambda shape: op.zeros(shape, "int8"), [2, 3], "Tensor[(?, ?), int8]"),
    (lambda shape: op.ones(shape, "float32"), [2], "Tensor[(?), float32]"),
    (lambda shape: op.full(numbers(7), shape), [3, 1], "Tensor[(?, ?), int32]"),
    (lambda shape: op.full(numbers(7), shape, "int64"), [3], "Tensor[(?), int64]"),
    (lambda axis: op.squeeze(_ONES, axis), [-1, 1], "Tensor[(?, ?), float32]"),
    (lambda axis: op.expand_dims(_DATA, axis, 2), 1, "Tensor[(?, ?, ?, ?, ?), float32]"),
    (lambda bounds: op.strided_slice(_DATA, [0, 0], bounds, bounds), [2, 1], "Tensor[(?, ?, 4), float32]"),
    (lambda begin: op.strided_slice(_DATA, begin, [5], [-1]), [-1], "Tensor[(?, 3, 4), float32]"),
    (lambda end: op.strided_slice(_DATA, [1, 1], end, slice_mode="size"), [-1, 2], "Tensor[(?, ?, 4), float32]"),
    (lambda k: op.topk(_DATA, k), 2, "(Tensor[(2, 3, ?), float32], Tensor[(2, 3, ?), int32])"),
    (lambda k: op.topk(_DATA, k, 1, "values", True), [1], "Tensor[(2, ?, 4), float32]"),
    (lambda k: op.topk(_DATA, k, 0, "indices", dtype="int64"), 0, "Tensor[(?, 3, 4), int64]"),
    (lambda n: op.one_hot(_INDICES, numbers(1), numbers(0), n, 1, "int8"), 3, "Tensor[(2, ?, 2), int8]"),
    (lambda width: op.nn.pad(_DATA, width, 5.0), [[1, 0], [0, 2], [-1, 1]], "Tensor[(?, ?, ?), float32]"),
    (lambda width: op.nn.pad(_DATA, width, pad_mode="edge"), [[1, 0], [0, 2], [0, 0]], "Tensor[(?, ?, ?), float32]"),
    (lambda size: op.image.resize2d(_IMAGES, size), [3, 7], "Tensor[(1, 2, ?, ?), float32]"),
    (
        lambda size: op.image.resize2d(_IMAGES, size, "NHWC", out_dtype="float64"),
        [3, 4],
        "Tensor[(1, ?, ?, 4), float64]",
    ),
    (lambda shape: op.sparse_to_dense(_INDICES, shape, floats([1, 2])), [4, 6], "Tensor[(?, ?), float32]"),
]


@pytest.mark.parametrize(("build", "numbers", "expected_type"), _CASES)
def test_computed_shape_gives_the_static_value(
    build: Callable[[Numbers], Built], numbers: int | list[int] | list[list[int]], expected_type: str
) -> None:
    array = np.asarray(numbers, "int64")
    dynamic = build(var("numbers", shape=array.shape, dtype="int64"))
    assert _name(dynamic) == f"dyn.{_name(build(numbers))}"
    assert result_type(dynamic) == expected_type
    results, expected = _arrays(evaluate(_expr(dynamic), array)), _arrays(evaluate(_expr(build(numbers))))
    assert [result.dtype for result in results] == [result.dtype for result in expected]
    for result, expected_result in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, expected_result)


@pytest.mark.parametrize(
    ("build", "rank", "expected_type"),
    [
        (op.nn.upsampling, 2, "Tensor[(1, 2, ?, ?), float32]"),
        (op.nn.upsampling3d, 3, "Tensor[(1, 2, ?, ?, ?), float32]"),
    ],
)
def test_computed_factors_give_the_static_value(build: Callable[..., Call], rank: int, expected_type: str) -> None:
    images = const(np.arange(2 * 3**rank, dtype="float32").reshape(1, 2, *[3] * rank))
    scale = var("scale", "float32")
    dynamic = build(images, scale, *[1.5] * (rank - 1))
    assert (_name(dynamic), result_type(dynamic)) == (f"dyn.{_name(build(images))}", expected_type)
    expected = evaluate(build(images, 2, *[const(1.5)] * (rank - 1)))
    np.testing.assert_array_equal(evaluate(dynamic, np.float32(2)), expected)


def test_dynamic_to_static_turns_constants_into_attributes() -> None:
    size = op.add(const([2]), const([1]))
    pads = op.nn.pad(_DATA, op.multiply(const([[0, 1], [1, 0], [0, 0]]), const(2)))
    program = Tuple(
        [
            op.image.resize2d(_IMAGES, op.concatenate([size, size], 0)),
            op.nn.upsampling(_IMAGES, op.sqrt(const(4.0))),
            pads,
        ]
    )
    static = optimized(program, "DynamicToStatic")
    assert not [name for name in ops_of(static) if name.startswith("dyn.")]
    expected = "(Tensor[(1, 2, 3, 3), float32], Tensor[(1, 2, 6, 4), float32], Tensor[(4, 5, 4), float32])"
    assert str(static.body.checked_type) == expected


def test_computed_numbers_of_other_shapes_are_rejected() -> None:
    wide = var("wide", shape=(2, 3), dtype="int32")
    assert "pad_width must be Tensor[(1, 2), int32]" in refusal(op.nn.pad(tensor(2), wide))
    assert "size must be two numbers" in refusal(op.image.resize2d(_IMAGES, wide))
    assert "a scale must be a scalar" in refusal(op.nn.upsampling(_IMAGES, wide, 1))
    two = var("two", shape=(2,), dtype="int32")
    assert "layout NCHW has 4 dimensions" in refusal(op.image.resize2d(_DATA, two))


def _expr(built: Built) -> Expr:
    return built.astuple() if isinstance(built, TupleWrapper) else built


def _name(built: Built) -> str:
    call = _expr(built)
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    return call.op.name


def _arrays(value: Value) -> list[Array]:
    return [np.asarray(item) for item in (value if isinstance(value, tuple) else (value,))]


def test_constant_shape_is_part_of_the_type() -> None:
    assert result_type(op.zeros(const([2, 3], "int64"), "int8")) == "Tensor[(2, 3), int8]"
    assert result_type(op.expand_dims(tensor(2), const(0))) == "Tensor[(1, 2), float32]"


def test_vector_of_unknown_length_is_rejected() -> None:
    shape = var("shape", shape=(Any(),), dtype="int32")
    message = "dyn.reshape: newshape must be a vector of a known length, got Tensor[(?), int32]"
    assert refusal(op.reshape(tensor(2), shape)) == message
    assert "axis must be one number" in refusal(op.expand_dims(tensor(2), var("axis", shape=(2,), dtype="int32")))
    many = var("many", shape=(3,), dtype="int32")
    assert "has fewer dimensions than begin" in refusal(op.strided_slice(tensor(2), many, [1]))
    assert "names to drop" in refusal(op.squeeze(tensor(2), many))


def test_computed_shape_accepts_only_three_codes() -> None:
    with pytest.raises(EvaluationError, match="can contain only the codes 0, -1 and -3"):
        evaluate(op.reshape(_DATA, Var("shape")), np.array([-2, 4]))


def test_computed_shape_joins_two_axes() -> None:
    data = const(np.zeros((2, 3, 4), "float32"))
    joined = evaluate(op.reshape(data, Var("shape")), np.array([-3, 0]))
    assert isinstance(joined, np.ndarray)
    assert joined.shape == (6, 4)


def test_computed_bounds_are_rejected_with_axes() -> None:
    with pytest.raises(TypeError, match="begin must be ints or a constant"):
        op.strided_slice(_DATA, Var("begin"), [1], axes=[1])
