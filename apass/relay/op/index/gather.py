"""Operators that select elements: where, take, gather, gather_nd, adv_index."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, TupleWrapper
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.arguments import tuple_of
from apass.relay.op.define.dims import axis_of, broadcast_dims, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, forward_tuple, one_dtype

__all__ = [
    "GatherAttrs",
    "GatherNDAttrs",
    "TakeAttrs",
    "adv_index",
    "along_axis",
    "gather",
    "gather_nd",
    "take",
    "where",
]

Indices = npt.NDArray[np.int64]
"""An array of indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeAttrs(Attrs):
    """The attributes of take."""

    batch_dims: Integer = 0
    """The number of leading dimensions that data and indices share."""
    axis: int | None = None
    """The axis that is indexed; None for the flattened data."""
    mode: str = "clip"
    """The treatment of an index out of bounds: `clip` to the nearest, `wrap` around, `fast` for an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherAttrs(Attrs):
    """The attributes of gather."""

    axis: Integer
    """The axis that is indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherNDAttrs(Attrs):
    """The attributes of gather_nd."""

    batch_dims: Integer = 0
    """The number of leading dimensions that data and indices share, and that are not indexed."""
    index_rank: int | None = None
    """The number of indexed dimensions, if the type of the indices does not contain it."""


def _relate_where(condition: TensorType, x: TensorType, y: TensorType, attrs: None) -> TensorType:
    return TensorType(broadcast_dims(condition.shape, x.shape, y.shape), one_dtype(x, y))


def _where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


def _relate_take(data: TensorType, indices: TensorType, attrs: TakeAttrs) -> TensorType:
    if attrs.mode not in ("clip", "wrap", "fast"):
        raise ValueError(f"mode must be clip, wrap or fast, got {attrs.mode!r}")
    if attrs.axis is None:
        return TensorType(indices.shape, data.dtype)
    axis = axis_of(len(data.shape), attrs.axis)
    batch = _batch_dims(len(indices.shape), attrs)
    if batch > axis:
        raise ValueError(f"axis {axis} is one of the {batch} batch dimensions; choose a later axis")
    return TensorType((*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]), data.dtype)


def _batch_dims(rank: int, attrs: TakeAttrs) -> int:
    return attrs.batch_dims + rank if attrs.batch_dims < 0 else attrs.batch_dims


def _take(attrs: TakeAttrs, data: Array, indices: Array) -> Array:
    if attrs.axis is None:
        return np.asarray(data.reshape(-1)[_within(data.size, indices, attrs.mode)])
    axis, batch = attrs.axis % data.ndim, _batch_dims(indices.ndim, attrs)
    positions = _within(data.shape[axis], indices, attrs.mode)
    grid: tuple[Indices, ...] = np.indices(positions.shape, sparse=True)[:batch]
    # The axis moves next to the batch dimensions, and the dimensions that replace it move back to where it was.
    picked = np.asarray(np.moveaxis(data, axis, batch)[(*grid, positions)])
    new_dims = range(positions.ndim - batch)
    return np.moveaxis(picked, [batch + dim for dim in new_dims], [axis + dim for dim in new_dims])


def _within(length: int, indices: Array, mode: str) -> Indices:
    """Return the indices, clipped or wrapped to `length` according to `mode`."""
    positions = indices.astype("int64")
    if mode == "fast":
        return positions
    return np.asarray(np.clip(positions, 0, length - 1) if mode == "clip" else np.mod(positions, length))


def along_axis(indices: Array, axis: int) -> tuple[Indices, ...]:
    """Return a numpy index: `indices` for `axis`, and the identity for other axes.

    >>> along_axis(np.array([[5, 6]]), 1)
    (array([[0]]), array([[5, 6]]))
    """
    positions = indices.astype("int64")
    grid: tuple[Indices, ...] = np.indices(indices.shape, sparse=True)
    return tuple(positions if dim == axis else identity for dim, identity in enumerate(grid))


def _relate_gather(data: TensorType, indices: TensorType, attrs: GatherAttrs) -> TensorType:
    axis = axis_of(len(data.shape), attrs.axis)
    if len(indices.shape) != len(data.shape):
        raise ValueError(f"the indices must have the {len(data.shape)} dimensions of the data, got {indices}")
    for position, (dim, count) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if position != axis and isinstance(dim, int) and isinstance(count, int) and count > dim:
            raise ValueError(
                f"the indices of shape {shape_text(indices.shape)} exceed the data of shape {shape_text(data.shape)} "
                f"in axis {position}"
            )
    return TensorType(indices.shape, data.dtype)


def _gather(attrs: GatherAttrs, data: Array, indices: Array) -> Array:
    return np.asarray(data[along_axis(indices, attrs.axis % data.ndim)])


def _relate_gather_nd(data: TensorType, indices: TensorType, attrs: GatherNDAttrs) -> TensorType:
    count = indices.shape[0] if indices.shape and isinstance(indices.shape[0], int) else attrs.index_rank
    if not isinstance(count, int):
        raise ValueError(f"the number of indexed dimensions is not known from {indices}; set index_rank")
    used = count + attrs.batch_dims
    if used > len(data.shape) or attrs.batch_dims >= len(indices.shape):
        raise ValueError(
            f"{count} indexed and {attrs.batch_dims} batch dimensions are too many for {data} and {indices}"
        )
    return TensorType((*indices.shape[1:], *data.shape[used:]), data.dtype)


def _gather_nd(attrs: GatherNDAttrs, data: Array, indices: Array) -> Array:
    grid: tuple[Indices, ...] = np.indices(indices.shape[1:], sparse=True)[: attrs.batch_dims]
    return np.asarray(data[(*grid, *indices.astype("int64"))])


def _relate_adv_index(inputs: tuple[TensorType, ...], attrs: None) -> TensorType:
    data, *indices = inputs
    if not 0 < len(indices) <= len(data.shape):
        raise ValueError(f"{data} takes from 1 to {len(data.shape)} indices, got {len(indices)}")
    shape = broadcast_dims(*(index.shape for index in indices))
    return TensorType((*shape, *data.shape[len(indices) :]), data.dtype)


def _adv_index(inputs: tuple[Array, ...]) -> Array:
    data, *indices = inputs
    return np.asarray(data[tuple(index.astype("int64") for index in indices)])


_WHERE = register_op(
    "where",
    arguments=("condition", "x", "y"),
    relation=forward("where", ("condition", "x", "y"), _relate_where),
    compute=_where,
    pattern=OpPattern.BROADCAST,
    level=4,
    description="Elements of one tensor where a condition is true, of another where it is false.",
)
_TAKE = register_op(
    "take",
    arguments=("data", "indices"),
    attrs_type=TakeAttrs,
    relation=forward("take", ("data", "indices"), _relate_take),
    compute=_take,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The slices of a tensor at indices along an axis.",
)
_GATHER = register_op(
    "gather",
    arguments=("data", "indices"),
    attrs_type=GatherAttrs,
    relation=forward("gather", ("data", "indices"), _relate_gather),
    compute=_gather,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="One element along an axis for each index.",
)
_GATHER_ND = register_op(
    "gather_nd",
    arguments=("data", "indices"),
    attrs_type=GatherNDAttrs,
    relation=forward("gather_nd", ("data", "indices"), _relate_gather_nd),
    compute=_gather_nd,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The elements or slices at the indices in the columns of a matrix.",
)
_ADV_INDEX = register_op(
    "adv_index",
    arguments=("inputs",),
    relation=forward_tuple("adv_index", "inputs", _relate_adv_index),
    compute=_adv_index,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="Numpy's indexing by tensors that are broadcast against each other.",
)


def where(condition: Expr, x: Expr, y: Expr) -> Call:
    """Return elements of `x` where the condition is true, and of `y` elsewhere.

    The three tensors are broadcast as in numpy.
    """
    return Call(_WHERE, (condition, x, y))


def take(data: Expr, indices: Expr, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Call:
    """Return the slices of the data at the indices along `axis`.

    If `axis` is None, return elements of the flattened data. With `batch_dims`, data and indices share that number of
    leading dimensions, and each batch has its own indices.
    """
    return Call(_TAKE, (data, indices), TakeAttrs(batch_dims=batch_dims, axis=axis, mode=mode))


def gather(data: Expr, axis: int, indices: Expr) -> Call:
    """Return one element along `axis` for each index.

    For axis 1 of two, `out[i, j] = data[i, indices[i, j]]`.
    """
    return Call(_GATHER, (data, indices), GatherAttrs(axis=axis))


def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0, index_rank: int | None = None) -> Call:
    """Return the elements or slices at the indices in the columns of `indices`.

    For two rows of indices, `out[i] = data[indices[0, i], indices[1, i]]`. With `batch_dims`, the first dimensions of
    the data are the dimensions of `indices` after its first one.
    """
    return Call(_GATHER_ND, (data, indices), GatherNDAttrs(batch_dims=batch_dims, index_rank=index_rank))


def adv_index(inputs: Expr | TupleWrapper | Iterable[Expr]) -> Call:
    """Return the first tensor indexed by the others, as numpy does.

    The other tensors are broadcast against each other.
    """
    return Call(_ADV_INDEX, (tuple_of("adv_index", inputs),))
