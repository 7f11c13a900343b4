"""Pooling, unpooling, and assembly of images from columns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.windows import Windows, window_indices, windows_from, windows_of
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr, const
from apass.relay.ir.ndarray import Array
from apass.relay.op import nn

__all__ = ["TABLE"]

MAXIMA: Final[dict[int, Callable[..., Expr]]] = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
"""Max pooling operators by the number of spatial dimensions."""

MEANS: Final[dict[int, Callable[..., Expr]]] = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}
"""Average pooling operators by the number of spatial dimensions."""


def average_pool(node: Node) -> Expr:
    """Return the mean of each window."""
    include = bool(node.integer("count_include_pad", 0))
    return _pooled(node, partial(_call, MEANS, count_include_pad=include))


def max_pool(node: Node) -> Expr | Sequence[Expr]:
    """Return the maximum of each window and, if that output is used, its index."""
    return _max_pool_with_indices(node) if node.is_used(1) else _pooled(node, partial(_call, MAXIMA))


def _call(makers: dict[int, Callable[..., Expr]], data: Expr, windows: Windows, **more: object) -> Expr:
    return makers[len(windows.sizes)](
        data,
        pool_size=windows.sizes,
        strides=windows.strides,
        dilation=windows.dilations,
        padding=windows.pads,
        **more,
    )


def _sizes(node: Node) -> tuple[int, ...]:
    sizes = node.integers("kernel_shape")
    if sizes is None:
        raise node.unsupported("attribute 'kernel_shape' is missing")
    return sizes


def _is_ceil(node: Node) -> bool:
    return bool(node.integer("ceil_mode", 0)) and node.text("auto_pad", "NOTSET") == "NOTSET"


def _pooled(node: Node, make: Callable[..., Expr]) -> Expr:
    """Return a pooling without windows that start after the end of the data."""
    data = node[0]
    windows = windows_of(node, data, _sizes(node))
    if not _is_ceil(node):
        return make(data, windows)
    result = make(data, windows, ceil_mode=True)
    dims = node.static_shape(data)[2:]
    counts = [windows.count(axis, dim, ceil=True) for axis, dim in enumerate(dims)]
    # Relay's ceil_mode also counts windows that start in the padding after the data; ONNX does not.
    if list(node.static_shape(result)[2:]) == counts:
        return result
    return op.strided_slice(result, begin=[0] * len(counts), end=counts, axes=list(range(2, 2 + len(counts))))


def _max_pool_with_indices(node: Node) -> Sequence[Expr]:
    """Return the maxima and their indices into the flat data.

    The elements of all windows are gathered and compared, as Relay's pooling returns no indices.
    """
    data = node[0]
    batch, channels, *dims = node.static_shape(data)
    windows = windows_of(node, data, _sizes(node))
    counts = [windows.count(axis, dim, ceil=_is_ceil(node)) for axis, dim in enumerate(dims)]
    indices, is_inside = window_indices(windows, dims, counts)
    flat = op.reshape(data, (batch, channels, -1))
    elements = op.take(flat, Constant(np.where(is_inside, indices, 0)), axis=2)
    lowest = -np.inf if node.is_float(data) else np.iinfo(node.dtype(data)).min
    candidates = op.where(Constant(is_inside), elements, node.constant(lowest, data))
    winners = op.cast(op.argmax(candidates, axis=3, keepdims=True), "int64")
    table = _column_major(indices, dims) if node.integer("storage_order", 0) else indices
    index_table = op.broadcast_to(Constant(table), (batch, channels, *table.shape))
    positions = op.squeeze(op.gather(index_table, 3, winners), axis=[3])
    starts = (np.arange(batch * channels) * int(np.prod(dims))).reshape(batch, channels, 1)
    shape = (batch, channels, *counts)
    maxima = op.squeeze(op.gather(candidates, 3, winners), axis=[3])
    return [op.reshape(maxima, shape), op.reshape(op.add(positions, Constant(starts)), shape)]


def _column_major(indices: Array, dims: Sequence[int]) -> Array:
    """Return indices into the flat data as indices in column-major order."""
    coordinates = np.unravel_index(indices.astype("int64"), tuple(dims))
    return np.ravel_multi_index(coordinates[::-1], tuple(reversed(dims))).astype("int64")


def lp_pool(node: Node) -> Expr:
    """Return the p-norm of each window."""
    data = node[0]
    p = node.number("p", 2.0) if node.version < 2 else float(node.integer("p", 2))
    windows = windows_of(node, data, _sizes(node))
    if _is_ceil(node):
        windows = _padded_windows(windows, node.static_shape(data)[2:])
    powers = op.power(op.abs(data), node.constant(p, data))
    mean = _call(MEANS, powers, windows, count_include_pad=True)
    total = op.multiply(mean, node.constant(int(np.prod(windows.sizes)), data))
    return op.power(total, node.constant(1 / p, data))


def _padded_windows(windows: Windows, dims: Sequence[int]) -> Windows:
    """Return windows with enough padding for the last partial window."""
    after: list[int] = []
    for axis, dim in enumerate(dims):
        count = windows.count(axis, dim, ceil=True)
        before, default = windows.sides(axis)
        needed = (count - 1) * windows.strides[axis] + windows.spans[axis] - dim - before
        after.append(needed if count != windows.count(axis, dim) else default)
    rank = len(windows.sizes)
    return replace(windows, pads=(*windows.pads[:rank], *after))


def max_unpool(node: Node) -> Expr:
    """Return zeros with the elements at the indices that a pooling returned."""
    data, indices = node[0], node[1]
    batch, channels, *dims = node.static_shape(data)
    windows = windows_of(node, data, _sizes(node))
    sizes = [
        (dim - 1) * windows.strides[axis] - sum(windows.sides(axis)) + windows.sizes[axis]
        for axis, dim in enumerate(dims)
    ]
    whole = (batch, channels, *sizes)
    empty = op.full(node.constant(0, data), (int(np.prod(whole)),), node.dtype(data))
    result = op.reshape(op.scatter(empty, op.reshape(indices, (-1,)), op.reshape(data, (-1,)), 0), whole)
    shape = node.ints(2)
    if shape is None or shape == whole:
        return result
    missing = [(0, new - old) for new, old in zip(shape, whole, strict=True)]
    return nn.pad(result, missing, pad_value=const(0, node.dtype(data)))


def col_to_image(node: Node) -> Expr:
    """Return images assembled from blocks, which are summed where they overlap."""
    data, shape, sizes = node[0], node.ints(1) or (), node.ints(2) or ()
    windows = windows_from(node, sizes)
    batch, rows, blocks = node.static_shape(data)
    taps = prod(sizes)
    counts = [windows.count(axis, dim) for axis, dim in enumerate(shape)]
    positions, is_inside = window_indices(windows, shape, counts)
    channels = rows // taps
    blocks_of_taps = op.reshape(data, (batch, channels, taps, blocks))
    values = op.where(Constant(is_inside.T), blocks_of_taps, node.constant(0, data))
    flat = op.reshape(values, (batch, channels, taps * blocks))
    indices = op.broadcast_to(Constant(positions.T.reshape(-1)), (batch, channels, taps * blocks))
    empty = op.full(node.constant(0, data), (batch, channels, prod(shape)), node.dtype(data))
    return op.reshape(op.scatter_add(empty, indices, flat, 2), (batch, channels, *shape))


TABLE: Final[Table] = {
    ("", "AveragePool", 1): average_pool,
    ("", "Col2Im", 18): col_to_image,
    ("", "LpPool", 1): lp_pool,
    ("", "MaxPool", 1): max_pool,
    ("", "MaxUnpool", 9): max_unpool,
}
"""The converters of this module."""
