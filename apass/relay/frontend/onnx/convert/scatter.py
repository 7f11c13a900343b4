"""Scatter operators: write or combine elements at indices."""

import math
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.indexing import counted_from_front, nonnegative_tuples
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr
from apass.relay.op import nn

__all__ = ["TABLE"]

Combine: TypeAlias = Callable[[Expr, Expr], Expr]

COMBINE: Final[dict[str, tuple[Combine, Callable[..., Expr]]]] = {
    "mul": (op.multiply, op.prod),
    "max": (op.maximum, op.max),
    "min": (op.minimum, op.min),
}
"""Reductions without a scatter in Relay: the binary operator and the reduction."""


def scatter_elements(node: Node) -> Expr:
    """Return a tensor with updates written or combined at indices along an axis."""
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
    """Return elements combined with all updates at their index.

    Each update is expanded over the whole axis, with a neutral value at other indices, and then reduced.
    """
    if reduction not in COMBINE:
        raise node.unsupported(f"reduction {reduction!r} is not supported")
    of_two, of_many = COMBINE[reduction]
    rank, dim = node.rank(data), node.static_dim(data, axis)
    positions = np.arange(dim).reshape([-1] + [1] * (rank - axis - 1))
    # Order of axes: the earlier ones, the updates, the positions along the axis, the later ones.
    is_hit = op.equal(op.expand_dims(indices, axis=axis + 1), node.constant(positions, indices))
    neutral = node.constant(_neutral(node.dtype(data), reduction), data)
    spread = op.where(is_hit, op.expand_dims(updates, axis=axis + 1), neutral)
    total = of_many(spread, axis=(axis,), keepdims=False)
    sizes = zip(node.static_shape(data), node.static_shape(total), strict=True)
    missing = [(0, size - covered) for size, covered in sizes]
    if any(after for _, after in missing):
        total = nn.pad(total, missing, pad_value=neutral)
    return of_two(data, total)


def _neutral(dtype: str, reduction: str) -> float:
    """Return the neutral element of a reduction."""
    if reduction == "mul":
        return 1
    if "float" in dtype:
        return -math.inf if reduction == "max" else math.inf
    info = np.iinfo(dtype)
    return info.min if reduction == "max" else info.max


def scatter_nd(node: Node) -> Expr:
    """Return a tensor with updates written or combined at index tuples."""
    data, updates = node[0], node[2]
    reduction = node.text("reduction", "none")
    rank, count = node.rank(node[1]), node.static_dim(node[1], -1)
    shape = node.static_shape(data)
    indices = nonnegative_tuples(node, node[1], shape[:count])
    if reduction in ("none", "add"):
        first = op.transpose(indices, axes=(rank - 1, *range(rank - 1)))
        return op.scatter_nd(data, first, updates, "add" if reduction == "add" else "update")
    # Flatten the index tuples to rows of a matrix, and scatter along the rows.
    inner = math.prod(shape[count:])
    strides = [math.prod(shape[index + 1 : count]) for index in range(count)]
    rows = op.sum(op.multiply(indices, node.constant(strides, indices)), axis=(rank - 1,))
    flat = op.reshape(rows, (-1, 1))
    changed = op.reshape(updates, (-1, inner))
    wide = op.broadcast_to(flat, node.static_shape(changed))
    matrix = op.reshape(data, (math.prod(shape[:count]), inner))
    return op.reshape(_combined(node, matrix, wide, changed, 0, reduction), shape)


def tensor_scatter(node: Node) -> Expr:
    """Return a cache with new entries, written along an axis from a start index."""
    cache, update, starts = node[0], node[1], node.get(2)
    rank = node.rank(cache)
    axis = node.normal_axis(node.integer("axis", -2), rank)
    shape = node.static_shape(update)
    steps = np.arange(shape[axis])
    indices: Expr = Constant(steps)
    if starts is not None:
        indices = op.add(op.reshape(op.cast(starts, "int64"), (-1, 1)), Constant(steps))
    if node.text("mode", "linear") == "circular":
        indices = op.floor_mod(indices, node.constant(node.static_dim(cache, axis), indices))
    index_shape = [1] * rank
    index_shape[axis] = shape[axis]
    if starts is not None:
        index_shape[0] = shape[0]
    full = op.broadcast_to(op.reshape(indices, index_shape), shape)
    return op.scatter(cache, full, update, axis)


TABLE: Final[Table] = {
    ("", "Scatter", 9): scatter_elements,
    ("", "ScatterElements", 11): scatter_elements,
    ("", "ScatterND", 11): scatter_nd,
    ("", "TensorScatter", 24): tensor_scatter,
}
"""The converters of this module."""
