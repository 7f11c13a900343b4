"""Sampling of images between pixels: GridSample, RoiAlign and DeformConv."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product as combinations
from math import prod
from typing import Final, TypeAlias

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype, round_half_even
from apass.relay.frontend.onnx.convert.conv import biased
from apass.relay.frontend.onnx.convert.matmul import product
from apass.relay.frontend.onnx.convert.windows import Windows, windows_of
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Expr, const

__all__ = ["TABLE"]

CUBIC: Final = -0.75
"""The coefficient `a` of cubic interpolation."""


@dataclass(frozen=True, slots=True)
class Tap:
    """A pixel along one axis that contributes to each point."""

    index: Expr
    """The index of the pixel."""
    weight: Expr | None
    """The weight of the pixel, or None if it is the only one."""
    is_inside: Expr | None
    """Whether the pixel exists, or None if all do."""


Bounded: TypeAlias = Callable[[Node, Expr, int], tuple[Expr, Expr | None]]
"""Maps indices of pixels to valid indices and, if pixels outside count as 0, to whether they are inside."""


def zeros_outside(node: Node, index: Expr, length: int) -> tuple[Expr, Expr | None]:
    """Return indices clipped to the image, and whether they were inside."""
    low, high = node.constant(0, index), node.constant(length - 1, index)
    is_inside = op.logical_and(op.less_equal(low, index), op.less_equal(index, high))
    return op.clip(index, 0, length - 1), is_inside


def border_outside(node: Node, index: Expr, length: int) -> tuple[Expr, Expr | None]:
    """Return indices clipped to the image."""
    return op.clip(index, 0, length - 1), None


def reflected(node: Node, index: Expr, low: float, high: float) -> Expr:
    """Return positions reflected at two bounds until they are between them."""
    width = high - low
    if width <= 0:
        return op.full(node.constant(low, index), node.static_shape(index), node.dtype(index))
    start, reach = node.constant(low, index), node.constant(width, index)
    offset = op.mod(op.abs(op.subtract(index, start)), node.constant(2 * width, index))
    return op.add(start, op.subtract(reach, op.abs(op.subtract(offset, reach))))


def taps_of(node: Node, position: Expr, length: int, method: str, bounded: Bounded) -> list[Tap]:
    """Return the pixels along one axis that contribute to points at positions."""
    if method == "nearest":
        index, is_inside = bounded(node, round_half_even(node, position), length)
        return [Tap(op.cast(index, "int64"), None, is_inside)]
    base = op.floor(position)
    rest = op.subtract(position, base)
    taps: list[Tap] = []
    for shift in (-1, 0, 1, 2) if method == "cubic" else (0, 1):
        index, is_inside = bounded(node, op.add(base, node.constant(shift, base)), length)
        distance = op.abs(op.subtract(node.constant(shift, rest), rest))
        weight = _cubic(node, distance, shift) if method == "cubic" else op.subtract(node.constant(1, rest), distance)
        taps.append(Tap(op.cast(index, "int64"), weight, is_inside))
    return taps


def _cubic(node: Node, distance: Expr, shift: int) -> Expr:
    """Return the weights of cubic interpolation.

    Distances are below 1 for the two nearest pixels, and from 1 to 2 for the others.
    """
    a = CUBIC
    factors = (a + 2, -(a + 3), 0.0, 1.0) if shift in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
    total: Expr = node.constant(factors[0], distance)
    for factor in factors[1:]:
        total = op.add(op.multiply(total, distance), node.constant(factor, distance))
    return total


def sampled(node: Node, data: Expr, axes: Sequence[Sequence[Tap]], combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """Return points of images.

    The result has the shape (N, C, P) for data (N, C, ...) and taps of shape (N, P).
    """
    batch, channels, *dims = node.static_shape(data)
    shape = (batch, channels, node.static_shape(axes[0][0].index)[1])
    flat = op.reshape(data, (batch, channels, prod(dims)))
    return reduce(combine, (_corner(node, flat, corner, dims, shape) for corner in combinations(*axes)))


def _corner(node: Node, flat: Expr, taps: Sequence[Tap], dims: Sequence[int], shape: tuple[int, int, int]) -> Expr:
    """Return the contribution of one pixel to each point, with one tap for each axis."""
    strides = [prod(dims[axis + 1 :]) for axis in range(len(dims))]
    steps = [op.multiply(tap.index, const(stride, "int64")) for tap, stride in zip(taps, strides, strict=True)]
    index = reduce(op.add, steps)
    value: Expr = op.gather(flat, 2, op.broadcast_to(op.expand_dims(index, axis=1), shape))
    insides = [tap.is_inside for tap in taps if tap.is_inside is not None]
    if insides:
        is_inside = op.expand_dims(reduce(op.logical_and, insides), axis=1)
        value = op.where(is_inside, value, node.constant(0, value))
    weights = [tap.weight for tap in taps if tap.weight is not None]
    if not weights:
        return value
    weight = as_dtype(node, reduce(op.multiply, weights), node.dtype(value))
    return op.multiply(value, op.expand_dims(weight, axis=1))


def grid_sample(node: Node) -> Expr:
    """Return points of images at a grid of coordinates between -1 and 1."""
    data, grid = node[0], node[1]
    batch, channels, *dims = node.static_shape(data)
    shape = node.static_shape(grid)[1:-1]
    method = node.text("mode", "linear").removeprefix("bi")
    is_aligned = bool(node.integer("align_corners", 0))
    padding = node.text("padding_mode", "zeros")
    if method not in ("linear", "nearest", "cubic") or padding not in ("zeros", "border", "reflection"):
        raise node.unsupported(f"mode {method!r} with padding_mode {padding!r} is not supported")
    points = op.reshape(grid, (batch, prod(shape), len(dims)))
    axes: list[list[Tap]] = []
    for axis, length in enumerate(dims):
        # The coordinates of a grid point are in reverse order of the axes.
        index = const(len(dims) - 1 - axis, "int64")
        position = _denormalized(node, op.take(points, index, axis=2), length, is_aligned)
        low, high = (0.0, length - 1.0) if is_aligned else (-0.5, length - 0.5)
        if method == "nearest":
            position = round_half_even(node, position)
        position = _moved_inside(node, position, (low, high), length, padding)
        axes.append(taps_of(node, position, length, method, _outside(padding, low, high)))
    return op.reshape(sampled(node, data, axes, op.add), (batch, channels, *shape))


def _denormalized(node: Node, position: Expr, length: int, is_aligned: bool) -> Expr:
    """Return positions in pixels: -1 and 1 are the centres or edges of the outer ones."""
    one, half = node.constant(1, position), node.constant(0.5, position)
    if is_aligned:
        return op.multiply(op.multiply(op.add(position, one), half), node.constant(length - 1, position))
    wide = op.multiply(op.add(position, one), node.constant(length, position))
    return op.multiply(op.subtract(wide, one), half)


def _moved_inside(node: Node, position: Expr, bounds: tuple[float, float], length: int, padding: str) -> Expr:
    """Return positions, with those outside moved inside by the padding mode."""
    if padding == "zeros":
        return position
    low, high = (node.constant(bound, position) for bound in bounds)
    is_out = op.logical_or(op.less(position, low), op.less(high, position))
    inner = op.clip(position, 0, length - 1) if padding == "border" else reflected(node, position, *bounds)
    return op.where(is_out, inner, position)


def _outside(padding: str, low: float, high: float) -> Bounded:
    """Return the treatment of pixels outside of the image."""
    if padding == "zeros":
        return zeros_outside
    if padding == "border":
        return border_outside
    return lambda node, index, length: (op.clip(reflected(node, index, low, high), 0, length - 1), None)


def roi_align(node: Node) -> Expr:
    """Return regions of images, each pooled to one size from interpolated points."""
    data, rois = node[0], node[1]
    regions, channels = node.static_dim(rois, 0), node.static_dim(data, 1)
    ratio = node.integer("sampling_ratio", 0)
    if ratio < 1:
        raise node.unsupported(f"sampling_ratio must be at least 1, got {ratio}: 0 depends on the sizes of the regions")
    sizes = (node.integer("output_height", 1), node.integer("output_width", 1))
    axes = _region_taps(node, [size * ratio for size in sizes])
    is_max = node.text("mode", "avg") == "max"
    values = sampled(node, op.take(data, node[2], axis=0), axes, op.maximum if is_max else op.add)
    blocks = op.reshape(values, (regions, channels, sizes[0], ratio, sizes[1], ratio))
    return op.max(blocks, axis=(3, 5)) if is_max else op.mean(blocks, axis=(3, 5))


def _region_taps(node: Node, count: Sequence[int]) -> list[list[Tap]]:
    """Return the taps of `count` points along each axis of each region."""
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    is_shifted = node.text("coordinate_transformation_mode", default) == "half_pixel"
    rois, regions = node[1], node.static_dim(node[1], 0)
    scaled = op.multiply(rois, node.constant(node.number("spatial_scale", 1.0), rois))
    x1, y1, x2, y2 = op.split(op.subtract(scaled, node.constant(0.5 if is_shifted else 0, rois)), 4, axis=1)
    axes: list[list[Tap]] = []
    for axis, (begin, end) in enumerate(((y1, y2), (x1, x2))):
        length = node.static_dim(node[0], axis + 2)
        centres = op.expand_dims(_centres(node, begin, end, count[axis], is_shifted), axis=2 - axis)
        position = op.reshape(op.broadcast_to(centres, (regions, *count)), (regions, prod(count)))
        low, high = node.constant(-1, position), node.constant(length, position)
        is_near = op.logical_and(op.less_equal(low, position), op.less_equal(position, high))
        taps = taps_of(node, op.clip(position, 0, length - 1), length, "linear", border_outside)
        axes.append([replace(tap, is_inside=is_near) for tap in taps])
    return axes


def _centres(node: Node, begin: Expr, end: Expr, count: int, is_shifted: bool) -> Expr:
    """Return the centres of `count` equal parts of each region along one axis."""
    reach = op.subtract(end, begin)
    if not is_shifted:
        reach = op.maximum(reach, node.constant(1, reach))
    middles = (np.arange(count) + 0.5) / count
    return op.add(begin, op.multiply(reach, node.constant(middles, reach)))


def deform_conv(node: Node) -> Expr:
    """Return a convolution whose sampling points are moved by offsets."""
    data, weight, mask = node[0], node[1], node.get(4)
    batch, channels, *dims = node.static_shape(data)
    filters, _, *sizes = node.static_shape(weight)
    windows = windows_of(node, data, sizes)
    counts = [windows.count(axis, dim) for axis, dim in enumerate(dims)]
    groups, offset_groups, taps = node.integer("group", 1), node.integer("offset_group", 1), prod(sizes)
    images = op.reshape(data, (batch * offset_groups, channels // offset_groups, *dims))
    points = sampled(node, images, _moved_taps(node, windows, counts, batch * offset_groups), op.add)
    if mask is not None:
        points = op.multiply(points, op.reshape(mask, (batch * offset_groups, 1, taps * prod(counts))))
    inner = channels // groups * taps
    columns = op.reshape(points, (batch, groups, inner, prod(counts)))
    matrices = op.reshape(weight, (1, groups, filters // groups, inner))
    return biased(op.reshape(product(node, matrices, columns), (batch, filters, *counts)), node.get(3))


def _moved_taps(node: Node, windows: Windows, counts: Sequence[int], batch: int) -> list[list[Tap]]:
    """Return the taps of the points of all windows, each moved by its offset."""
    taps, rank = prod(windows.sizes), len(counts)
    moves = op.reshape(node[2], (batch, taps, rank, prod(counts)))
    axes: list[list[Tap]] = []
    for axis, dim in enumerate(node.static_shape(node[0])[2:]):
        inner = np.indices(windows.sizes)[axis].reshape(-1, 1) * windows.dilations[axis] - windows.sides(axis)[0]
        rest = np.indices(counts)[axis].reshape(1, -1) * windows.strides[axis] + inner
        move = op.take(moves, const(axis, "int64"), axis=2)
        position = op.reshape(op.add(move, node.constant(rest, move)), (batch, taps * prod(counts)))
        axes.append(taps_of(node, position, dim, "linear", zeros_outside))
    return axes


TABLE: Final[Table] = {
    ("", "DeformConv", 19): deform_conv,
    ("", "GridSample", 16): grid_sample,
    ("", "RoiAlign", 10): roi_align,
}
"""The converters of this module."""
