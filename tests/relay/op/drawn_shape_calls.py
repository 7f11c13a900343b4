"""Functions that draw calls of operators that create, move or select elements."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.expr import Expr
from apass.relay.ir.expr import TupleWrapper, const
from tests.relay.op.drawn import Draw

__all__ = ["SHAPE_CALLS"]

Built = Expr | TupleWrapper


def _arange(draw: Draw) -> Built:
    start, stop, step = draw.number(-5, 5), draw.number(-5, 5), draw.one_of(-2, -1, 1, 3, 0.5, -0.75)
    return op.arange(start, stop, step, draw.one_of("float32", "int32") if isinstance(step, int) else "float64")


def _meshgrid(draw: Draw) -> Built:
    vectors = [draw.tensor(draw.shape(0, 1)) for _ in range(draw.number(1, 3))]
    return op.meshgrid(vectors, draw.one_of("ij", "xy"))


def _full(draw: Draw) -> Built:
    return op.full(draw.tensor((), draw.dtype()), draw.shape(), draw.one_of("", "int32", "float64"))


def _full_like(draw: Draw) -> Built:
    return op.full_like(draw.tensor(draw.shape(), draw.dtype()), draw.tensor((), draw.dtype()))


"""Return a shape and codes of a new shape that fit it."""


def _new_shape(draw: Draw) -> tuple[tuple[int, ...], list[int]]:
    """Return a shape and codes that fit it."""
    shape: list[int] = []
    codes: list[int] = []
    inferred = False
    for _ in range(draw.number(0, 3)):
        dims = [draw.number(1, 4), draw.number(1, 4)]
        code = draw.one_of(0, -3, -4, 1) if inferred else draw.one_of(0, -1, -3, -4, 1)
        inferred |= code == -1
        whole = dims if code == -3 else [dims[0] * dims[1]] if code == -4 else dims[:1]
        shape += whole
        split = [draw.one_of(-1, dims[0]), dims[1]]
        codes += [-4, *split] if code == -4 else dims[:1] if code == 1 else [code]
    if draw.flag():
        shape += draw.shape(0, 2)
        codes.append(-2)
    return tuple(shape), codes


def _reshape(draw: Draw) -> Built:
    shape, codes = _new_shape(draw)
    return op.reshape(draw.tensor(shape), codes)


def _reverse_reshape(draw: Draw) -> Built:
    shape = draw.shape(1)
    return op.reverse_reshape(draw.tensor(shape), [-1, *(0 for _ in range(draw.number(0, len(shape) - 1)))])


def _reshape_like(draw: Draw) -> Built:
    shape = draw.shape()
    return op.reshape_like(draw.tensor(shape), draw.tensor(shape[::-1]))


def _expand_dims(draw: Draw) -> Built:
    shape = draw.shape()
    return op.expand_dims(draw.tensor(shape), draw.number(-len(shape) - 1, len(shape)), draw.number(0, 2))


def _squeeze(draw: Draw) -> Built:
    shape = list(draw.shape())
    axes = draw.axes(len(shape))
    for axis in axes or ():
        shape[axis] = 1
    return op.squeeze(draw.tensor(shape), axes)


def _transpose(draw: Draw) -> Built:
    shape = draw.shape()
    order = sorted(range(len(shape)), key=lambda axis: (draw.number(0, 9), axis))
    return op.transpose(draw.tensor(shape), draw.one_of(None, order))


def _reverse(draw: Draw) -> Built:
    shape = draw.shape(1)
    return op.reverse(draw.tensor(shape), draw.axis(len(shape)))


def _layout_transform(draw: Draw) -> Built:
    shape = (draw.number(1, 2), 4 * draw.number(1, 2), draw.number(1, 3), draw.number(1, 3))
    return op.layout_transform(draw.tensor(shape), "NCHW", draw.one_of("NHWC", "NCHW4c", "NCHW", "HWNC"))


def _concatenate(draw: Draw) -> Built:
    shape, dtype = draw.shape(1), draw.dtype()
    axis = draw.axis(len(shape))
    shapes = [list(shape) for _ in range(draw.number(1, 3))]
    for tensor_shape in shapes:
        tensor_shape[axis] = draw.number(1, 4)
    return op.concatenate([draw.tensor(tensor_shape, dtype) for tensor_shape in shapes], axis)


def _einsum(draw: Draw) -> Built:
    sizes = {letter: draw.number(1, 3) for letter in "bijk"}
    equation = draw.one_of(
        "ij,jk->ik", "bij,bjk->bik", "ij,jk", "ii->i", "ii", "b...,...->...b", "...ij->...ji", "i,j->ij"
    )
    inputs = equation.partition("->")[0].split(",")
    shapes = [[sizes[letter] for letter in term.replace("...", "k")] for term in inputs]
    return op.einsum([draw.tensor(shape) for shape in shapes], equation)


def _stack(draw: Draw) -> Built:
    shape, dtype = draw.shape(), draw.dtype()
    axis = draw.axis(len(shape) + 1)
    return op.stack([draw.tensor(shape, dtype) for _ in range(draw.number(1, 3))], axis)


def _split(draw: Draw) -> Built:
    shape = list(draw.shape(1))
    axis, parts = draw.axis(len(shape)), draw.number(1, 3)
    positions = sorted(draw.number(0, shape[axis]) for _ in range(parts))
    if draw.flag():
        return op.split(draw.tensor(shape), positions, axis)
    shape[axis] *= parts
    return op.split(draw.tensor(shape), parts, axis)


def _broadcast_to(draw: Draw) -> Built:
    shape = draw.shape()
    return op.broadcast_to(draw.tensor(draw.narrowed(shape)), shape)


def _broadcast_to_like(draw: Draw) -> Built:
    shape = draw.shape()
    return op.broadcast_to_like(draw.tensor(draw.narrowed(shape)), draw.tensor(shape))


def _collapse_sum_like(draw: Draw) -> Built:
    shape = draw.shape()
    return op.collapse_sum_like(draw.tensor(shape), draw.tensor(draw.narrowed(shape)))


def _collapse_sum_to(draw: Draw) -> Built:
    shape = draw.shape()
    small = draw.narrowed(shape)
    return op.collapse_sum_to(draw.tensor(shape), small if draw.flag() else draw.variable(np.array(small, "int32")))


def _repeat(draw: Draw) -> Built:
    shape = draw.shape(1)
    return op.repeat(draw.tensor(shape), draw.number(1, 3), draw.one_of(None, draw.axis(len(shape))))


def _tile(draw: Draw) -> Built:
    return op.tile(draw.tensor(draw.shape()), draw.shape())


def _strided_slice(draw: Draw) -> Built:
    shape = draw.shape(1)
    count = draw.number(1, len(shape))
    begin, end, strides = ([draw.number(-6, 6) for _ in range(count)] for _ in range(3))
    strides = [stride or 1 for stride in strides[: draw.number(0, count)]]
    axes = draw.one_of(None, [axis - len(shape) for axis in range(count)])
    if draw.flag():
        begin = [draw.number(-dim, dim - 1) for dim in shape[:count]]
        return op.strided_slice(draw.tensor(shape), begin, [max(size, -1) for size in end], None, axes, "size")
    return op.strided_slice(draw.tensor(shape), begin, end, strides or None, axes)


def _strided_set(draw: Draw) -> Built:
    shape = draw.shape(1)
    begin = [draw.number(0, dim - 1) for dim in shape]
    return op.strided_set(draw.tensor(shape), draw.tensor([1] * len(shape)), begin, shape)


def _slice_like(draw: Draw) -> Built:
    small = draw.shape()
    shape = [dim + draw.number(0, 2) for dim in small]
    return op.slice_like(draw.tensor(shape), draw.tensor(small), draw.axes(len(shape)))


def _take(draw: Draw) -> Built:
    shape, mode = draw.shape(1), draw.one_of("clip", "wrap", "fast")
    limit = 3 if mode == "fast" else 9
    if draw.flag():
        length = int(np.prod(shape))
        return op.take(draw.tensor(shape), draw.indices(draw.shape(), min(limit, length)), mode=mode)
    axis = draw.number(0, len(shape) - 1)
    batch = draw.number(0, axis)
    indices = draw.indices((*shape[:batch], *draw.shape(0, 2)), min(limit, shape[axis]))
    return op.take(draw.tensor(shape), indices, draw.one_of(axis, axis - len(shape)), batch, mode)


def _gather(draw: Draw) -> Built:
    shape = list(draw.shape(1))
    axis = draw.axis(len(shape))
    data, length = draw.tensor(shape), shape[axis]
    shape[axis] = draw.number(1, 4)
    return op.gather(data, axis, draw.indices(shape, length))


def _gather_nd(draw: Draw) -> Built:
    shape = draw.shape(1)
    batch = draw.number(0, len(shape) - 1)
    count = draw.number(1, len(shape) - batch)
    indices = draw.indices((count, *shape[:batch], *draw.shape(0, 1)), min(shape[batch : batch + count]))
    return op.gather_nd(draw.tensor(shape), indices, batch, count)


def _adv_index(draw: Draw) -> Built:
    shape, common = draw.shape(1), draw.shape()
    indices = [draw.indices(draw.narrowed(common), dim) for dim in shape[: draw.number(1, len(shape))]]
    return op.adv_index([draw.tensor(shape), *indices])


def _scattered(function: Callable[[Expr, Expr, Expr, int], Expr]) -> Callable[[Draw], Built]:
    def draw_scatter(draw: Draw) -> Built:
        shape = draw.shape(1)
        axis = draw.axis(len(shape))
        return function(draw.tensor(shape), draw.indices(shape, shape[axis]), draw.tensor(shape), axis)

    return draw_scatter


def _scatter_nd(draw: Draw) -> Built:
    shape, rest = draw.shape(1), draw.shape(0, 2)
    count = draw.number(1, len(shape))
    indices = draw.indices((count, *rest), min(shape[:count]))
    return op.scatter_nd(
        draw.tensor(shape), indices, draw.tensor((*rest, *shape[count:])), draw.one_of("add", "update")
    )


def _one_hot(draw: Draw) -> Built:
    shape = draw.shape()
    values = draw.tensor(()), draw.tensor(())
    axis = draw.number(-1, len(shape))
    return op.one_hot(draw.indices(shape, 5), *values, draw.number(1, 4), axis, draw.one_of("", "int32", "float32"))


def _sparse_to_dense(draw: Draw) -> Built:
    shape = draw.shape(1)
    count = draw.number(1, 4)
    return op.sparse_to_dense(draw.indices((count, len(shape)), min(shape)), shape, draw.tensor((count,)), const(0.0))


def _matrix_set_diag(draw: Draw) -> Built:
    rows, columns, batch = draw.number(1, 4), draw.number(1, 4), draw.shape(0, 1)
    low = draw.number(1 - rows, columns - 1)
    high = draw.number(low, columns - 1)
    longest = max(min(rows + min(k, 0), columns - max(k, 0)) for k in range(low, high + 1))
    band = () if low == high else (high - low + 1,)
    align = draw.one_of("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
    return op.matrix_set_diag(
        draw.tensor((*batch, rows, columns)), draw.tensor((*batch, *band, longest)), (low, high), align
    )


def _reverse_sequence(draw: Draw) -> Built:
    shape = (*draw.shape(2, 3),)
    batch, sequence = draw.one_of((0, 1), (1, 0), (-1, 0))
    return op.reverse_sequence(draw.tensor(shape), draw.indices((shape[batch],), 7), sequence, batch)


def _sequence_mask(draw: Draw) -> Built:
    shape, axis = draw.shape(2, 3), draw.number(0, 1)
    return op.sequence_mask(draw.tensor(shape), draw.indices((shape[1 - axis],), 5), draw.number(-2, 2), axis)


def _sorted(function: Callable[..., Expr]) -> Callable[[Draw], Built]:
    def draw_sort(draw: Draw) -> Built:
        shape = draw.shape(1)
        return function(draw.tensor(shape, draw.dtype()), draw.axis(len(shape)), draw.flag())

    return draw_sort


def _topk(draw: Draw) -> Built:
    shape = draw.shape(1)
    axis = draw.axis(len(shape))
    ret_type, dtype = draw.one_of("both", "values", "indices"), draw.one_of("int32", "int64")
    return op.topk(draw.tensor(shape), draw.number(0, shape[axis]), axis, ret_type, draw.flag(), dtype)


def _searchsorted(draw: Draw) -> Built:
    outer = draw.shape(0, 2)
    ascending = np.sort(np.arange(int(np.prod((*outer, 3))), dtype="float32").reshape(*outer, 3))
    values = draw.tensor((*outer, draw.number(1, 4)) if outer else draw.shape())
    return op.searchsorted(draw.variable(ascending), values, draw.flag(), draw.one_of("int32", "int64"))


def _unravel_index(draw: Draw) -> Built:
    shape = draw.shape(1)
    return op.unravel_index(draw.indices(draw.shape(0, 1), int(np.prod(shape))), draw.variable(np.array(shape)))


SHAPE_CALLS: Final[Mapping[str, Callable[[Draw], Built]]] = {
    "adv_index": _adv_index,
    "arange": _arange,
    "argsort": _sorted(op.argsort),
    "argwhere": lambda draw: op.argwhere(draw.tensor(draw.shape(), "bool")),
    "broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to_like,
    "collapse_sum_like": _collapse_sum_like,
    "collapse_sum_to": _collapse_sum_to,
    "concatenate": _concatenate,
    "contrib_reverse_reshape": _reverse_reshape,
    "einsum": _einsum,
    "expand_dims": _expand_dims,
    "full": _full,
    "full_like": _full_like,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "invert_permutation": lambda draw: op.invert_permutation(draw.tensor((draw.number(1, 4),), "int32")),
    "layout_transform": _layout_transform,
    "matrix_set_diag": _matrix_set_diag,
    "meshgrid": _meshgrid,
    "ndarray_size": lambda draw: op.ndarray_size(draw.tensor(draw.shape()), draw.one_of("int32", "int64")),
    "one_hot": _one_hot,
    "ones": lambda draw: op.ones(draw.shape(), draw.dtype()),
    "repeat": _repeat,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "reverse": _reverse,
    "reverse_sequence": _reverse_sequence,
    "scatter": _scattered(op.scatter),
    "scatter_add": _scattered(op.scatter_add),
    "scatter_nd": _scatter_nd,
    "searchsorted": _searchsorted,
    "sequence_mask": _sequence_mask,
    "shape_of": lambda draw: op.shape_of(draw.tensor(draw.shape()), draw.one_of("int32", "int64")),
    "slice_like": _slice_like,
    "sort": _sorted(op.sort),
    "sparse_to_dense": _sparse_to_dense,
    "split": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "strided_set": _strided_set,
    "strided_slice": _strided_slice,
    "take": _take,
    "tile": _tile,
    "topk": _topk,
    "transpose": _transpose,
    "unique": lambda draw: op.unique(draw.tensor((draw.number(1, 6),), "int32"), draw.flag(), draw.flag()),
    "unravel_index": _unravel_index,
    "zeros": lambda draw: op.zeros(draw.shape(), draw.dtype()),
}
"""The functions that draw calls, by the name of the operator."""
