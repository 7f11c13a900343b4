"""nn.space_to_batch_nd, its inverse nn.batch_to_space_nd, and nn.dilate."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.dims import product
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.pad import pairs
from apass.relay.op.nn.relations import must_divide, tensors

__all__ = [
    "BatchToSpaceNDAttrs",
    "DilateAttrs",
    "SpaceToBatchNDAttrs",
    "batch_to_space_nd",
    "dilate",
    "space_to_batch_nd",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceToBatchNDAttrs(Attrs):
    """The attributes of nn.space_to_batch_nd."""

    block_shape: tuple[int, ...]
    """The size of a block in each spatial dimension."""
    paddings: tuple[tuple[int, ...], ...]
    """The padding before and after each spatial dimension."""
    pad_value: float = 0.0
    """The value of the padding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchToSpaceNDAttrs(Attrs):
    """The attributes of nn.batch_to_space_nd."""

    block_shape: tuple[int, ...]
    """The size of a block in each spatial dimension."""
    crops: tuple[tuple[int, ...], ...]
    """The number of elements removed before and after each spatial dimension of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DilateAttrs(Attrs):
    """The attributes of nn.dilate."""

    strides: tuple[int, ...] = (1, 1)
    """The distance of neighbouring elements in each dimension of the result."""
    dilation_value: float = 0.0
    """The value between the elements."""


def _must_match(
    op: str, data: TensorType, block: Sequence[int], attribute: str, pairs: Sequence[Sequence[int]]
) -> None:
    if not block or len(data.shape) <= len(block) or min(block) < 1:
        raise TypeInferenceError(f"{op}: block_shape {block} does not fit {data}, whose first dimension is the batch")
    if len(pairs) != len(block) or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        raise TypeInferenceError(
            f"{op}: {attribute} must be a pair of numbers, 0 or more, for each of {len(block)} dimensions, got {pairs}"
        )


def _to_batch_relation(types: Sequence[Type], attrs: SpaceToBatchNDAttrs) -> Sequence[Type | None] | None:
    op, block = "nn.space_to_batch_nd", attrs.block_shape
    data, _ = tensors(op, types)
    if data is None:
        return None
    _must_match(op, data, block, "paddings", attrs.paddings)
    batch, *dims = data.shape
    padded = [dim + sum(pair) for dim, pair in zip(dims, attrs.paddings, strict=False)]
    for dim, size in zip(padded, block, strict=True):
        must_divide(op, "a padded dimension", dim, size)
    blocks = [dim // size for dim, size in zip(padded, block, strict=True)]
    return [None, TensorType((product((batch, prod(block))), *blocks, *dims[len(block) :]), data.dtype)]


def _to_space_relation(types: Sequence[Type], attrs: BatchToSpaceNDAttrs) -> Sequence[Type | None] | None:
    op, block = "nn.batch_to_space_nd", attrs.block_shape
    data, _ = tensors(op, types)
    if data is None:
        return None
    _must_match(op, data, block, "crops", attrs.crops)
    batch, *dims = data.shape
    must_divide(op, "the batch", batch, prod(block))
    spread = [product((dim, size)) for dim, size in zip(dims, block, strict=False)]
    cropped = [dim - sum(pair) for dim, pair in zip(spread, attrs.crops, strict=True)]
    if any(isinstance(dim, int) and dim < 1 for dim in cropped):
        raise TypeInferenceError(f"{op}: crops {attrs.crops} remove a whole dimension of {spread}")
    return [None, TensorType((batch // prod(block), *cropped, *dims[len(block) :]), data.dtype)]


def _dilate_relation(types: Sequence[Type], attrs: DilateAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.dilate", types)
    if data is None:
        return None
    if len(attrs.strides) != len(data.shape) or min(attrs.strides, default=1) < 1:
        raise TypeInferenceError(
            f"nn.dilate: strides must be a positive number for each dimension of {data}, got {attrs.strides}"
        )
    pairs = zip(data.shape, attrs.strides, strict=True)
    shape = [(dim - 1) * stride + 1 for dim, stride in pairs]
    return [None, TensorType(shape, data.dtype)]


def _to_batch(attrs: SpaceToBatchNDAttrs, data: Array) -> Array:
    block, rank = attrs.block_shape, len(attrs.block_shape)
    width = pairs([(0, 0), *attrs.paddings, *((0, 0),) * (data.ndim - rank - 1)])
    padded = np.pad(data, width, constant_values=np.asarray(attrs.pad_value).astype(data.dtype).item())
    batch, *dims = padded.shape
    blocks = [part for dim, size in zip(dims, block, strict=False) for part in (dim // size, size)]
    parts = padded.reshape(batch, *blocks, *dims[rank:])
    inner, outer = range(2, 2 * rank + 1, 2), range(1, 2 * rank, 2)
    transposed = parts.transpose(*inner, 0, *outer, *range(2 * rank + 1, parts.ndim))
    return transposed.reshape(batch * prod(block), *blocks[::2], *dims[rank:])


def _to_space(attrs: BatchToSpaceNDAttrs, data: Array) -> Array:
    block, rank = attrs.block_shape, len(attrs.block_shape)
    batch, *dims = data.shape
    parts = data.reshape(*block, batch // prod(block), *dims)
    order = [axis for pair in zip(range(rank + 1, 2 * rank + 1), range(rank), strict=True) for axis in pair]
    transposed = parts.transpose(rank, *order, *range(2 * rank + 1, parts.ndim))
    spread = [dim * size for dim, size in zip(dims, block, strict=False)]
    whole = transposed.reshape(batch // prod(block), *spread, *dims[rank:])
    cropped = tuple(slice(low, dim - high) for (low, high), dim in zip(attrs.crops, spread, strict=True))
    return whole[(slice(None), *cropped)]


def _dilate(attrs: DilateAttrs, data: Array) -> Array:
    shape = [(dim - 1) * stride + 1 for dim, stride in zip(data.shape, attrs.strides, strict=True)]
    out = np.full(shape, attrs.dilation_value, data.dtype)
    out[tuple(slice(None, None, stride) for stride in attrs.strides)] = data
    return out


_SPACE_TO_BATCH_ND = register_op(
    "nn.space_to_batch_nd",
    arguments=("data",),
    attrs_type=SpaceToBatchNDAttrs,
    relation=_to_batch_relation,
    compute=_to_batch,
    pattern=OpPattern.INJECTIVE,
    level=5,
    description="The elements of each block as samples of the batch.",
)

_BATCH_TO_SPACE_ND = register_op(
    "nn.batch_to_space_nd",
    arguments=("data",),
    attrs_type=BatchToSpaceNDAttrs,
    relation=_to_space_relation,
    compute=_to_space,
    pattern=OpPattern.INJECTIVE,
    level=5,
    description="Samples of the batch as the elements of a block.",
)

_DILATE = register_op(
    "nn.dilate",
    arguments=("x",),
    attrs_type=DilateAttrs,
    relation=_dilate_relation,
    compute=_dilate,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The data with a value inserted between neighbours.",
)


def _pairs(widths: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(width) for width in pair) for pair in widths)


def space_to_batch_nd(
    data: Expr, block_shape: Iterable[int], paddings: Iterable[Iterable[int]], pad_value: float = 0
) -> Call:
    """Return the padded data with the elements of each block as samples."""
    attrs = SpaceToBatchNDAttrs(block_shape=tuple(block_shape), paddings=_pairs(paddings), pad_value=float(pad_value))
    return Call(_SPACE_TO_BATCH_ND, (data,), attrs)


def batch_to_space_nd(data: Expr, block_shape: Iterable[int], crops: Iterable[Iterable[int]]) -> Call:
    """Return the data with samples of the batch as elements of blocks, then cropped.

    This is the inverse of `space_to_batch_nd`.
    """
    return Call(_BATCH_TO_SPACE_ND, (data,), BatchToSpaceNDAttrs(block_shape=tuple(block_shape), crops=_pairs(crops)))


def dilate(data: Expr, strides: Iterable[int], dilation_value: float = 0.0) -> Call:
    """Return the data with neighbours `strides` apart and a value between them."""
    return Call(_DILATE, (data,), DilateAttrs(strides=tuple(strides), dilation_value=float(dilation_value)))
