"""Elements put in the places that indices say."""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from apass.relay import op
from apass.relay.expr import Constant, Expr
from apass.relay.frontend.onnx.convert.indexing import counted_from_front, nonnegative_tuples
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.op import nn

__all__ = ["TABLE"]

Combine: TypeAlias = Callable[[Expr, Expr], Expr]

COMBINE: Final[dict[str, tuple[Combine, Callable[..., Expr]]]] = {
    "mul": (op.multiply, op.prod),
    "max": (op.maximum, op.max),
    "min": (op.minimum, op.min),
}
"""The reductions that Relay has no scatter for: of two elements, and of many."""


def scatter_elements(node: Node) -> Expr:
    """Return a tensor with updates put at, or combined with, the elements at indices along an axis."""
    data = node[0]
    axis = node.axis(data, 0)
    indices = counted_from_front(node, node[1], node.static_dim(data, axis))
    reduction = node.text("reduction", "none")
    if reduction == "none":
        return op.scatter(data, indices, node[2], axis)
    if reduction == "add":
        return op.scatter_add(data, indices, node[2], axis)
    return _combined(node, data, indices, node[2], axis, reduction)


def _combined(node: Node, data: Expr, indices: Expr, updates: Expr, axis: int, reduction: str) -> Expr:
    """Return elements combined with all updates that fall on them: each update is laid out over the whole axis."""
    if reduction not in COMBINE:
        raise node.unsupported(f"its reduction is {reduction!r}")
    of_two, of_many = COMBINE[reduction]
    rank, dim = node.rank(data), node.static_dim(data, axis)
    places = np.arange(dim).reshape([-1] + [1] * (rank - axis - 1))
    # Axes: those before, the updates, the places that they may fall on, those behind.
    is_hit = op.equal(op.expand_dims(indices, axis=axis + 1), node.constant(places, indices))
    neutral = node.constant(_neutral(node.dtype(data), reduction), data)
    spread = op.where(is_hit, op.expand_dims(updates, axis=axis + 1), neutral)
    total = of_many(spread, axis=(axis,), keepdims=False)
    missing = [(0, a - b) for a, b in zip(node.static_shape(data), node.static_shape(total), strict=True)]
    if any(behind for _, behind in missing):
        total = nn.pad(total, missing, pad_value=neutral)
    return of_two(data, total)


def _neutral(dtype: str, reduction: str) -> float:
    """Return the number that changes nothing when it is combined with another."""
    if reduction == "mul":
        return 1
    if "float" in dtype:
        return -math.inf if reduction == "max" else math.inf
    info = np.iinfo(dtype)
    return info.min if reduction == "max" else info.max


def scatter_nd(node: Node) -> Expr:
    """Return a tensor with updates put at, or combined with, the slices at tuples of indices."""
    data, updates = node[0], node[2]
    reduction = node.text("reduction", "none")
    rank, count = node.rank(node[1]), node.static_dim(node[1], -1)
    shape = node.static_shape(data)
    indices = nonnegative_tuples(node, node[1], shape[:count])
    if reduction in ("none", "add"):
        first = op.transpose(indices, axes=(rank - 1, *range(rank - 1)))
        return op.scatter_nd(data, first, updates, "add" if reduction == "add" else "update")
    # In a matrix with a row for each tuple of indices, this is a scatter along the rows.
    inner = math.prod(shape[count:])
    strides = [math.prod(shape[place + 1 : count]) for place in range(count)]
    rows = op.sum(op.multiply(indices, node.constant(strides, indices)), axis=(rank - 1,))
    flat = op.reshape(rows, (-1, 1))
    changed = op.reshape(updates, (-1, inner))
    wide = op.broadcast_to(flat, node.static_shape(changed))
    matrix = op.reshape(data, (math.prod(shape[:count]), inner))
    return op.reshape(_combined(node, matrix, wide, changed, 0, reduction), shape)


def tensor_scatter(node: Node) -> Expr:
    """Return a cache with new entries written along an axis, for each batch from a place of its own on."""
    cache, update, starts = node[0], node[1], node.get(2)
    rank = node.rank(cache)
    axis = node.normal_axis(node.integer("axis", -2), rank)
    shape = node.static_shape(update)
    steps = np.arange(shape[axis])
    places: Expr = Constant(steps)
    if starts is not None:
        places = op.add(op.reshape(op.cast(starts, "int64"), (-1, 1)), Constant(steps))
    if node.text("mode", "linear") == "circular":
        places = op.floor_mod(places, node.constant(node.static_dim(cache, axis), places))
    laid = [1] * rank
    laid[axis] = shape[axis]
    if starts is not None:
        laid[0] = shape[0]
    indices = op.broadcast_to(op.reshape(places, laid), shape)
    return op.scatter(cache, indices, update, axis)


TABLE: Final[Table] = {
    ("", "Scatter", 9): scatter_elements,
    ("", "ScatterElements", 11): scatter_elements,
    ("", "ScatterND", 11): scatter_nd,
    ("", "TensorScatter", 24): tensor_scatter,
}
"""The converters of this module."""
