"""`to_onnx` of operators on positions, of dynamic operators and of annotations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from apass import relay
from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Expr, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.expr import const, var
from apass.relay.ir.ndarray import Array
from apass.relay.ty import Any as AnyDim
from apass.relay.ty import TensorType
from tests.relay.backend.exporting import assert_same_outputs, tuple_of

NUMBERS = np.array([3, 1, 3, 0, 7, 1, 3], "int64")


def vector_of(dtype: str, size: int = 7) -> Var:
    return var("x", shape=(size,), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize(("is_sorted", "counts"), [(True, True), (False, True), (True, False)])
def test_unique_has_equal_outputs(dtype: str, is_sorted: bool, counts: bool) -> None:
    data = vector_of(dtype)
    body = tuple_of(relay.unique(data, is_sorted, counts))
    assert_same_outputs(Function([data], body), [NUMBERS.astype(dtype)])


def test_unique_of_unknown_length_is_padded() -> None:
    data = Var("x", TensorType((AnyDim(),), "int64"))
    assert_same_outputs(Function([data], tuple_of(relay.unique(data))), [NUMBERS])
    assert_same_outputs(Function([data], tuple_of(relay.unique(data))), [np.array([1, 2], "int64")])


@pytest.mark.parametrize("dtype", ["float32", "int8", "int32", "uint64"])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize(("sequences", "values"), [((5,), (2, 3)), ((5,), ()), ((2, 5), (2, 3)), ((0,), (3,))])
def test_searchsorted_has_equal_outputs(
    dtype: str, right: bool, sequences: tuple[int, ...], values: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    arrays = [np.sort(rng.integers(0, 6, sequences)).astype(dtype), rng.integers(0, 6, values).astype(dtype)]
    first, second = (var(name, shape=array.shape, dtype=dtype) for name, array in zip("sv", arrays, strict=True))
    assert_same_outputs(Function([first, second], relay.searchsorted(first, second, right, "int64")), arrays)


@pytest.mark.parametrize(
    ("begin", "end", "strides", "shape"),
    [
        ([1], [4], [2], (2, 4)),
        ([0, -1], [5, -9], [1, -2], (5, 2)),
        ([1, 0], [2, 2], [1], (1, 1)),
        ([3], [3], [1], (0, 4)),
    ],
)
def test_strided_set_has_equal_outputs(
    begin: list[int], end: list[int], strides: list[int], shape: tuple[int, ...]
) -> None:
    data, updates = var("x", shape=(5, 4)), var("v", shape=shape)
    bounds = [const(np.array(numbers, "int32")) for numbers in (begin, end, strides)]
    assert_same_outputs(Function([data, updates], relay.strided_set(data, updates, *bounds)))


def test_strided_set_needs_constant_bounds() -> None:
    data, bound = var("x", shape=(4,)), var("b", shape=(1,), dtype="int32")
    func = Function([data, bound], relay.strided_set(data, data, bound, bound, bound))
    with pytest.raises(OpNotImplementedError, match="begin, end and strides must be constants"):
        relay.to_onnx(func)


@pytest.mark.parametrize(
    ("k", "align", "shape"),
    [
        (0, "RIGHT_LEFT", (2, 3)),
        (1, "RIGHT_LEFT", (2, 3)),
        ((-1, 2), "RIGHT_LEFT", (2, 4, 3)),
        ((-1, 2), "LEFT_RIGHT", (2, 4, 3)),
    ],
)
def test_matrix_set_diag_has_equal_outputs(k: Any, align: str, shape: tuple[int, ...]) -> None:
    data, diagonal = var("x", shape=(2, 3, 4)), var("d", shape=shape)
    assert_same_outputs(Function([data, diagonal], relay.matrix_set_diag(data, diagonal, k, align)))


def test_matrix_set_diag_has_unknown_batch() -> None:
    data, diagonal = Var("x", TensorType((AnyDim(), 3, 4))), Var("d", TensorType((AnyDim(), 3)))
    arrays: list[Array] = [np.ones((2, 3, 4), "float32"), np.arange(6, dtype="float32").reshape(2, 3)]
    assert_same_outputs(Function([data, diagonal], relay.matrix_set_diag(data, diagonal)), arrays)


@pytest.mark.parametrize("shape", [(3,), ()])
def test_values_of_sparse_to_dense_may_be_one(shape: tuple[int, ...]) -> None:
    values, dims = var("v", shape=shape), var("s", shape=(2,), dtype="int64")
    positions = const(np.array([[0, 1], [2, 3], [1, 1]], "int32"))
    number = np.array(np.arange(1, 4)[: len(shape) * 3] if shape else 2, "float32")
    static = relay.sparse_to_dense(positions, (3, 4), values, const(0.5))
    assert_same_outputs(Function([values], static), [number])
    dynamic = relay.sparse_to_dense(positions, dims, values, const(0.5))
    assert_same_outputs(Function([values, dims], dynamic), [number, np.array([3, 4])])


@pytest.mark.parametrize(("mode", "width"), [("constant", [[1, 2], [0, 3]]), ("edge", [[1, 0], [2, 2]])])
def test_computed_padding_has_equal_outputs(mode: str, width: list[list[int]]) -> None:
    data, widths = var("x", shape=(3, 4)), var("w", shape=(2, 2), dtype="int32")
    func = Function([data, widths], relay.nn.pad(data, widths, const(1.5), pad_mode=mode))
    assert_same_outputs(func, [np.arange(12, dtype="float32").reshape(3, 4), np.array(width, "int32")])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(("method", "corners"), [("nearest_neighbor", False), ("bilinear", True)])
def test_computed_upsampling_has_equal_outputs(layout: str, method: str, corners: bool) -> None:
    data, height, width = var("x", shape=(1, 4, 5, 3)), var("h", shape=()), var("w", shape=())
    body = relay.nn.upsampling(data, height, width, layout, method, corners)
    images = np.random.default_rng(0).random((1, 4, 5, 3), "float32")
    assert_same_outputs(
        Function([data, height, width], body), [images, np.array(2.5, "float32"), np.array(3, "float32")]
    )


def test_computed_upsampling_of_volumes_has_equal_outputs() -> None:
    data, scales = var("x", shape=(1, 2, 3, 4, 5)), [var(name, shape=()) for name in "dhw"]
    body = relay.nn.upsampling3d(data, scales[0], scales[1], scales[2])
    volumes = np.random.default_rng(0).random((1, 2, 3, 4, 5), "float32")
    assert_same_outputs(
        Function([data, *scales], body), [volumes, *(np.array(scale, "float32") for scale in (2, 1.5, 3))]
    )


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_computed_size_of_images_has_equal_outputs(layout: str) -> None:
    data, size = var("x", shape=(2, 4, 5, 3)), var("s", shape=(2,), dtype="int32")
    body = relay.image.resize2d(data, size, layout, "linear")
    images = np.random.default_rng(0).random((2, 4, 5, 3), "float32")
    assert_same_outputs(Function([data, size], body), [images, np.array([7, 3], "int32")])


RESIZED: list[Callable[[Expr], Expr]] = [
    lambda x: relay.image.resize2d(x, (7, 3)),
    lambda x: relay.image.resize2d(x, (7, 3), "NHWC", "nearest_neighbor", "asymmetric"),
    lambda x: relay.nn.upsampling(x, 2, 2),
    lambda x: relay.nn.upsampling(x, 2.5, 2, "NHWC", "bilinear"),
]


@pytest.mark.parametrize("make", RESIZED)
def test_images_of_unknown_dimensions_are_resized(make: Callable[[Expr], Expr]) -> None:
    data = Var("x", TensorType((AnyDim(), 4, AnyDim(), AnyDim())))
    assert_same_outputs(Function([data], make(data)), [np.random.default_rng(0).random((2, 4, 5, 3), "float32")])


def test_empty_slice_with_a_negative_stride_is_empty() -> None:
    data = var("x", shape=(5, 2))
    assert_same_outputs(Function([data], relay.strided_slice(data, [-9], [-10], [-1])))


def test_annotations_are_left_out() -> None:
    data = var("x", shape=(2,))
    both = relay.annotation.checkpoint(Tuple([data, relay.negative(data)]))
    body = relay.annotation.compiler_end(relay.annotation.compiler_begin(both, "c"), "c")
    assert [node.op_type for node in relay.to_onnx(Function([data], body)).graph.node] == ["Neg", "Identity"]
    assert_same_outputs(Function([data], body))


TYPED: list[tuple[str, Callable[[Expr], Expr]]] = [
    ("int32", lambda x: relay.log2(x)),
    ("int8", lambda x: relay.rsqrt(x)),
    ("float64", lambda x: relay.argwhere(x)),
    ("uint64", lambda x: relay.argwhere(x)),
    ("int16", lambda x: relay.nn.depth_to_space(relay.reshape(x, (1, 4, 3, 1)), 2)),
    ("int32", lambda x: relay.nn.space_to_depth(relay.reshape(x, (1, 1, 6, 2)), 2)),
    ("int16", lambda x: relay.nn.upsampling(relay.reshape(x, (1, 1, 3, 4)), 2, 3)),
    (
        "float16",
        lambda x: relay.scatter_add(x, const(np.array([[0, 1, 1, 2]])), relay.exp(relay.strided_slice(x, [0], [1])), 0),
    ),
    (
        "float16",
        lambda x: relay.scatter_nd(x, const([[0, 0], [1, 1]]), relay.cast(const([1.0, 2.0]), "float16"), "add"),
    ),
]
"""Operators on types for which onnxruntime lacks the operator of ONNX."""


@pytest.mark.parametrize(("dtype", "make"), TYPED)
def test_types_that_onnxruntime_lacks_are_widened(dtype: str, make: Callable[[Expr], Expr]) -> None:
    data = var("x", shape=(3, 4), dtype=dtype)
    assert_same_outputs(Function([data], make(data)), [np.arange(1, 13).reshape(3, 4).astype(dtype)])


def test_slice_like_shortens_the_first_axes() -> None:
    data, like = var("x", shape=(2, 3, 4)), var("y", shape=(1, 2))
    total = relay.sum(data)
    assert_same_outputs(Function([data, like], Tuple([relay.slice_like(data, like), relay.slice_like(total, total)])))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3)])
def test_repeat_of_no_elements_has_none(shape: tuple[int, ...]) -> None:
    data = var("x", shape=shape)
    assert_same_outputs(Function([data], relay.repeat(data, 2, 0)))
