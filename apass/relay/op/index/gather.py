"""Elements chosen by others: where, take, gather, gather_nd, adv_index."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.arguments import tuple_of
from apass.relay.op.define.dims import axis_of, broadcast_dims, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, forward_tuple, one_dtype
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import TensorType

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

Places = npt.NDArray[np.int64]
"""An array of indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeAttrs(Attrs):
    """The attributes of take."""

    batch_dims: int = 0
    """How many leading dimensions data and indices share."""
    axis: int | None = None
    """The axis that is indexed; None for the data laid out flat."""
    mode: str = "clip"
    """What an index beyond the axis means: `clip` the nearest, `wrap` counting around, `fast` an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherAttrs(Attrs):
    """The attributes of gather."""

    axis: int
    """The axis that is indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherNDAttrs(Attrs):
    """The attributes of gather_nd."""

    batch_dims: int = 0
    """How many leading dimensions of the data are not indexed, but shared with the indices."""
    index_rank: int | None = None
    """How many dimensions are indexed, if the type of the indices does not tell."""


def _relate_where(condition: TensorType, x: TensorType, y: TensorType, attrs: None) -> TensorType:
    return TensorType(broadcast_dims(condition.shape, x.shape, y.shape), one_dtype(x, y))


def _where(condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition, x, y)


def _relate_take(data: TensorType, indices: TensorType, attrs: TakeAttrs) -> TensorType:
    if attrs.mode not in ("clip", "wrap", "fast"):
        raise ValueError(f"mode is {attrs.mode!r}; it must be clip, wrap or fast")
    if attrs.axis is None:
        return TensorType(indices.shape, data.dtype)
    axis = axis_of(len(data.shape), attrs.axis)
    batch = _batch_dims(len(indices.shape), attrs)
    if batch > axis:
        raise ValueError(f"axis {axis} is one of the {batch} batch dimensions; it must be behind them")
    return TensorType((*data.shape[:axis], *indices.shape[batch:], *data.shape[axis + 1 :]), data.dtype)


def _batch_dims(rank: int, attrs: TakeAttrs) -> int:
    return attrs.batch_dims + rank if attrs.batch_dims < 0 else attrs.batch_dims


def _take(attrs: TakeAttrs, data: Array, indices: Array) -> Array:
    if attrs.axis is None:
        return np.asarray(data.reshape(-1)[_within(data.size, indices, attrs.mode)])
    axis, batch = attrs.axis % data.ndim, _batch_dims(indices.ndim, attrs)
    places = _within(data.shape[axis], indices, attrs.mode)
    own: tuple[Places, ...] = np.indices(places.shape, sparse=True)[:batch]
    # The axis goes next to the batch dimensions, and what is found along it goes back to where the axis was.
    picked = np.asarray(np.moveaxis(data, axis, batch)[(*own, places)])
    found = range(places.ndim - batch)
    return np.moveaxis(picked, [batch + place for place in found], [axis + place for place in found])


def _within(length: int, indices: Array, mode: str) -> Places:
    """Return the indices as what those beyond `length` mean."""
    places = indices.astype("int64")
    if mode == "fast":
        return places
    return np.asarray(np.clip(places, 0, length - 1) if mode == "clip" else np.mod(places, length))


def along_axis(indices: Array, axis: int) -> tuple[Places, ...]:
    """Return the index of numpy that has `indices` in the place of `axis`, and each element's own place in the others.

    >>> along_axis(np.array([[5, 6]]), 1)
    (array([[0]]), array([[5, 6]]))
    """
    places = indices.astype("int64")
    grid: tuple[Places, ...] = np.indices(indices.shape, sparse=True)
    return tuple(places if place == axis else own for place, own in enumerate(grid))


def _relate_gather(data: TensorType, indices: TensorType, attrs: GatherAttrs) -> TensorType:
    axis = axis_of(len(data.shape), attrs.axis)
    if len(indices.shape) != len(data.shape):
        raise ValueError(f"the indices must have the {len(data.shape)} dimensions of the data, but are a {indices}")
    for place, (dim, found) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if place != axis and isinstance(dim, int) and isinstance(found, int) and found > dim:
            raise ValueError(f"the indices {shape_text(indices.shape)} reach beyond the data {shape_text(data.shape)}")
    return TensorType(indices.shape, data.dtype)


def _gather(attrs: GatherAttrs, data: Array, indices: Array) -> Array:
    return np.asarray(data[along_axis(indices, attrs.axis % data.ndim)])


def _relate_gather_nd(data: TensorType, indices: TensorType, attrs: GatherNDAttrs) -> TensorType:
    count = indices.shape[0] if indices.shape and isinstance(indices.shape[0], int) else attrs.index_rank
    if not isinstance(count, int):
        raise ValueError(f"how many dimensions are indexed is not known from {indices}; give index_rank")
    used = count + attrs.batch_dims
    if used > len(data.shape) or attrs.batch_dims >= len(indices.shape):
        raise ValueError(
            f"{count} indices and {attrs.batch_dims} batch dimensions are too many for {data} and {indices}"
        )
    return TensorType((*indices.shape[1:], *data.shape[used:]), data.dtype)


def _gather_nd(attrs: GatherNDAttrs, data: Array, indices: Array) -> Array:
    own: tuple[Places, ...] = np.indices(indices.shape[1:], sparse=True)[: attrs.batch_dims]
    return np.asarray(data[(*own, *indices.astype("int64"))])


def _relate_adv_index(inputs: tuple[TensorType, ...], attrs: None) -> TensorType:
    data, *indices = inputs
    if not 0 < len(indices) <= len(data.shape):
        raise ValueError(f"{data} takes from 1 to {len(data.shape)} indices, but was given {len(indices)}")
    shape = broadcast_dims(*(one.shape for one in indices))
    return TensorType((*shape, *data.shape[len(indices) :]), data.dtype)


def _adv_index(inputs: tuple[Array, ...]) -> Array:
    data, *indices = inputs
    return np.asarray(data[tuple(one.astype("int64") for one in indices)])


_WHERE = register_op(
    "where",
    arguments=("condition", "x", "y"),
    relation=forward("where", ("condition", "x", "y"), _relate_where),
    compute=_where,
    pattern=OpPattern.BROADCAST,
    level=4,
    description="Elements of one tensor where a condition is true, of another where it is false, with broadcasting.",
)
_TAKE = register_op(
    "take",
    arguments=("data", "indices"),
    attrs_type=TakeAttrs,
    relation=forward("take", ("data", "indices"), _relate_take),
    compute=_take,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The slices of a tensor that indices name along an axis.",
)
_GATHER = register_op(
    "gather",
    arguments=("data", "indices"),
    attrs_type=GatherAttrs,
    relation=forward("gather", ("data", "indices"), _relate_gather),
    compute=_gather,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="One element for each index, found along an axis.",
)
_GATHER_ND = register_op(
    "gather_nd",
    arguments=("data", "indices"),
    attrs_type=GatherNDAttrs,
    relation=forward("gather_nd", ("data", "indices"), _relate_gather_nd),
    compute=_gather_nd,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The elements or slices that the columns of the indices name.",
)
_ADV_INDEX = register_op(
    "adv_index",
    arguments=("inputs",),
    relation=forward_tuple("adv_index", "inputs", _relate_adv_index),
    compute=_adv_index,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="Numpy's indexing by tensors, which are broadcast against each other.",
)


def where(condition: Expr, x: Expr, y: Expr) -> Call:
    """Return the elements of `x` where the condition is true, those of `y` elsewhere, with numpy's broadcasting."""
    return Call(_WHERE, (condition, x, y))


def take(data: Expr, indices: Expr, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Call:
    """Return the slices of the data that the indices name along `axis`; elements of the flat data for None.

    With `batch_dims`, data and indices share so many leading dimensions, and each is taken from its own.
    """
    return Call(_TAKE, (data, indices), TakeAttrs(batch_dims=batch_dims, axis=axis, mode=mode))


def gather(data: Expr, axis: int, indices: Expr) -> Call:
    """Return one element for each index: `out[i, j] = data[i, indices[i, j]]` for axis 1 of two."""
    return Call(_GATHER, (data, indices), GatherAttrs(axis=axis))


def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0, index_rank: int | None = None) -> Call:
    """Return the elements or slices that the columns of the indices name.

    For two rows of indices, `out[i] = data[indices[0, i], indices[1, i]]`.
    With `batch_dims`, the first dimensions of the data are those of the indices behind their first.
    """
    return Call(_GATHER_ND, (data, indices), GatherNDAttrs(batch_dims=batch_dims, index_rank=index_rank))


def adv_index(inputs: Expr | TupleWrapper | Iterable[Expr]) -> Call:
    """Return the first tensor indexed by the others, which are broadcast against each other, as numpy does."""
    return Call(_ADV_INDEX, (tuple_of("adv_index", inputs),))
