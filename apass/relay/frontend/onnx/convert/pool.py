"""Poolings."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.expr import Constant, Expr
from apass.relay.frontend.onnx.convert.windows import Windows, window_places, windows_from, windows_of
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.ndarray import Array
from apass.relay.make import const
from apass.relay.op import nn

__all__ = ["TABLE"]

MAXIMA: Final[dict[int, Callable[..., Expr]]] = {1: nn.max_pool1d, 2: nn.max_pool2d, 3: nn.max_pool3d}
"""Poolings of maxima by the number of spatial dimensions."""

MEANS: Final[dict[int, Callable[..., Expr]]] = {1: nn.avg_pool1d, 2: nn.avg_pool2d, 3: nn.avg_pool3d}
"""Poolings of means by the number of spatial dimensions."""


def average_pool(node: Node) -> Expr:
    """Return the mean of each window."""
    include = bool(node.integer("count_include_pad", 0))
    return _pooled(node, partial(_call, MEANS, count_include_pad=include))


def max_pool(node: Node) -> Expr | Sequence[Expr]:
    """Return the greatest element of each window and, if somebody wants it, its place."""
    return _max_pool_with_places(node) if node.wants(1) else _pooled(node, partial(_call, MAXIMA))


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
        raise node.unsupported("it has no kernel_shape")
    return sizes


def _is_ceil(node: Node) -> bool:
    return bool(node.integer("ceil_mode", 0)) and node.text("auto_pad", "NOTSET") == "NOTSET"


def _pooled(node: Node, make: Callable[..., Expr]) -> Expr:
    """Return a pooling; windows that would start behind the data are left out."""
    data = node[0]
    windows = windows_of(node, data, _sizes(node))
    if not _is_ceil(node):
        return make(data, windows)
    made = make(data, windows, ceil_mode=True)
    dims = node.static_shape(data)[2:]
    wanted = [windows.count(axis, dim, ceil=True) for axis, dim in enumerate(dims)]
    if list(node.static_shape(made)[2:]) == wanted:
        return made
    return op.strided_slice(made, begin=[0] * len(wanted), end=wanted, axes=list(range(2, 2 + len(wanted))))


def _max_pool_with_places(node: Node) -> Sequence[Expr]:
    """Return the maxima and their places in the flat data: all windows are laid out, then compared."""
    data = node[0]
    batch, channels, *dims = node.static_shape(data)
    windows = windows_of(node, data, _sizes(node))
    counts = [windows.count(axis, dim, ceil=_is_ceil(node)) for axis, dim in enumerate(dims)]
    places, is_inside = window_places(windows, dims, counts)
    flat = op.reshape(data, (batch, channels, -1))
    laid = op.take(flat, Constant(np.where(is_inside, places, 0)), axis=2)
    lowest = -np.inf if node.is_float(data) else np.iinfo(node.dtype(data)).min
    compared = op.where(Constant(is_inside), laid, node.constant(lowest, data))
    winners = op.cast(op.argmax(compared, axis=3, keepdims=True), "int64")
    table = _column_major(places, dims) if node.integer("storage_order", 0) else places
    candidates = op.broadcast_to(Constant(table), (batch, channels, *table.shape))
    found = op.squeeze(op.gather(candidates, 3, winners), axis=[3])
    starts = (np.arange(batch * channels) * int(np.prod(dims))).reshape(batch, channels, 1)
    shape = (batch, channels, *counts)
    maxima = op.squeeze(op.gather(compared, 3, winners), axis=[3])
    return [op.reshape(maxima, shape), op.reshape(op.add(found, Constant(starts)), shape)]


def _column_major(places: Array, dims: Sequence[int]) -> Array:
    """Return places in the flat data as they are counted with the first spatial dimension running fastest."""
    indices = np.unravel_index(places.astype("int64"), tuple(dims))
    return np.ravel_multi_index(indices[::-1], tuple(reversed(dims))).astype("int64")


def lp_pool(node: Node) -> Expr:
    """Return the p-norm of each window."""
    data = node[0]
    p = node.number("p", 2.0) if node.version < 2 else float(node.integer("p", 2))
    windows = windows_of(node, data, _sizes(node))
    if _is_ceil(node):
        windows = _reaching(windows, node.static_shape(data)[2:])
    powers = op.power(op.abs(data), node.constant(p, data))
    mean = _call(MEANS, powers, windows, count_include_pad=True)
    total = op.multiply(mean, node.constant(int(np.prod(windows.sizes)), data))
    return op.power(total, node.constant(1 / p, data))


def _reaching(windows: Windows, dims: Sequence[int]) -> Windows:
    """Return windows with so much padding that those which would stick out do not."""
    behind: list[int] = []
    for axis, dim in enumerate(dims):
        count = windows.count(axis, dim, ceil=True)
        before, given = windows.sides(axis)
        needed = (count - 1) * windows.strides[axis] + windows.spans[axis] - dim - before
        behind.append(needed if count != windows.count(axis, dim) else given)
    rank = len(windows.sizes)
    return replace(windows, pads=(*windows.pads[:rank], *behind))


def max_unpool(node: Node) -> Expr:
    """Return a tensor of zeros with the elements put back in the places that a pooling took them from."""
    data, places = node[0], node[1]
    batch, channels, *dims = node.static_shape(data)
    windows = windows_of(node, data, _sizes(node))
    sizes = [
        (dim - 1) * windows.strides[axis] - sum(windows.sides(axis)) + windows.sizes[axis]
        for axis, dim in enumerate(dims)
    ]
    whole = (batch, channels, *sizes)
    empty = op.full(node.constant(0, data), (int(np.prod(whole)),), node.dtype(data))
    made = op.reshape(op.scatter(empty, op.reshape(places, (-1,)), op.reshape(data, (-1,)), 0), whole)
    wanted = node.ints(2)
    if wanted is None or wanted == whole:
        return made
    missing = [(0, size - had) for size, had in zip(wanted, whole, strict=True)]
    return nn.pad(made, missing, pad_value=const(0, node.dtype(data)))


def col_to_image(node: Node) -> Expr:
    """Return images put together from blocks, which add up where they overlap."""
    data, shape, sizes = node[0], node.ints(1) or (), node.ints(2) or ()
    windows = windows_from(node, sizes)
    batch, rows, blocks = node.static_shape(data)
    taps = prod(sizes)
    counts = [windows.count(axis, dim) for axis, dim in enumerate(shape)]
    places, is_inside = window_places(windows, shape, counts)
    channels = rows // taps
    apart = op.reshape(data, (batch, channels, taps, blocks))
    values = op.where(Constant(is_inside.T), apart, node.constant(0, data))
    flat = op.reshape(values, (batch, channels, taps * blocks))
    indices = op.broadcast_to(Constant(places.T.reshape(-1)), (batch, channels, taps * blocks))
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
