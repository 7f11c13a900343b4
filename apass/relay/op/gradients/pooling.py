"""Gradients of pooling."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from apass.relay.ir.calls import attrs_of, call_op, tensor_type
from apass.relay.ir.expr import Call, Expr, const
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.convert import zeros_like
from apass.relay.op.gradients.support import in_layout, multiply_axis, shape_in
from apass.relay.op.index.gather import take
from apass.relay.op.nn.pool.adaptive import AdaptivePoolAttrs, bins_of, sizes_of
from apass.relay.op.nn.pool.global_pool import GlobalPool2DAttrs
from apass.relay.op.nn.pool.grad import avg_pool2d_grad, max_pool2d_grad
from apass.relay.op.nn.pool.pool import AvgPool1DAttrs, AvgPool2DAttrs, AvgPool3DAttrs, PoolAttrs, slides_of
from apass.relay.op.nn.windows import DATA_LAYOUTS, padding_of
from apass.relay.op.shape.reshape import reshape

__all__: list[str] = []

Window: TypeAlias = Mapping[str, object]
"""The attributes of a maximum along the first dimension of images."""


@register_gradient("nn.max_pool2d")
def _max_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [call_op("nn.max_pool2d_grad", grad, orig.args[0], **dict(attrs_of(orig, PoolAttrs).items()))]


@register_gradient("nn.avg_pool2d")
def _avg_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [call_op("nn.avg_pool2d_grad", grad, orig.args[0], **dict(attrs_of(orig, PoolAttrs).items()))]


@register_gradient("nn.avg_pool2d_grad")
def _avg_pool2d_grad(orig: Call, grad: Expr) -> Sequence[Expr]:
    # The operator is linear in the gradient that it gets, and independent of the values of the data.
    data = orig.args[1]
    return [call_op("nn.avg_pool2d", grad, **dict(attrs_of(orig, AvgPool2DAttrs).items())), zeros_like(data)]


def _max_slope(grad: Expr, data: Expr, shape: Sequence[int], counts: Sequence[int], windows: Sequence[Window]) -> Expr:
    """Return the gradient of maxima of windows along the spatial dimensions.

    The maxima along one dimension after the other are those of whole windows.

    Parameters:
        grad: the gradient of the maxima, in a plain layout.
        data: the data, of shape `shape` in that layout.
        counts: the number of windows along each spatial dimension.
        windows: the windows along each spatial dimension.

    """
    steps: list[tuple[Expr, Sequence[int], Sequence[int]]] = []
    for axis, (count, window) in enumerate(zip(counts, windows, strict=True), 2):
        before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
        columns = reshape(data, (before, 1, shape[axis], after))
        steps.append((columns, shape, (before, 1, count, after)))
        shape = (*shape[:axis], count, *shape[axis + 1 :])
        data = reshape(call_op("nn.max_pool2d", columns, **window), shape)
    for (operand, old_shape, new_shape), window in zip(reversed(steps), reversed(windows), strict=True):
        grad = reshape(call_op("nn.max_pool2d_grad", reshape(grad, new_shape), operand, **window), old_shape)
    return grad


def _max_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, PoolAttrs)
    rank, out_layout = len(attrs.pool_size), attrs.out_layout or attrs.layout
    plain, pads = DATA_LAYOUTS[rank].name, padding_of(attrs.padding, rank)
    shape = shape_in("max pooling", data, attrs.layout, plain)
    counts = shape_in("max pooling", orig, out_layout, plain)[2:]
    axes = zip(attrs.pool_size, attrs.strides, attrs.dilation, pads[:rank], pads[rank:], strict=True)
    windows: list[Window] = [
        {
            "pool_size": (size, 1),
            "strides": (stride, 1),
            "dilation": (gap, 1),
            "padding": (low, 0, high, 0),
            "ceil_mode": attrs.ceil_mode,
        }
        for size, stride, gap, low, high in axes
    ]
    part, images = in_layout(grad, out_layout, plain), in_layout(data, attrs.layout, plain)
    return [in_layout(_max_slope(part, images, shape, counts, windows), plain, attrs.layout)]


def _image_size(orig: Call) -> tuple[int, ...]:
    layout = attrs_of(orig, GlobalPool2DAttrs).layout
    return shape_in("global pooling", orig.args[0], layout, "NCHW")[2:]


@register_gradient("nn.global_avg_pool2d")
def _global_avg_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, GlobalPool2DAttrs)
    size = _image_size(orig)
    return [avg_pool2d_grad(grad, data, size, layout=attrs.layout, out_layout=attrs.out_layout)]


@register_gradient("nn.global_max_pool2d")
def _global_max_pool2d(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, GlobalPool2DAttrs)
    size = _image_size(orig)
    return [max_pool2d_grad(grad, data, size, layout=attrs.layout, out_layout=attrs.out_layout)]


def _averaged(orig: Call, grad: Expr, layouts: tuple[str, str], matrices: Sequence[NDArray[np.float64]]) -> Expr:
    """Return the gradient of means along the spatial dimensions.

    Each matrix has a row of weights for each window along its dimension.
    """
    plain, data = DATA_LAYOUTS[len(matrices)].name, orig.args[0]
    slope = in_layout(grad, layouts[1] or layouts[0], plain)
    for axis, matrix in enumerate(matrices, 2):
        slope = multiply_axis(slope, axis, len(matrices) + 2, matrix.T, tensor_type(data).dtype)
    return in_layout(slope, plain, layouts[0])


def _avg_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = orig.attrs
    assert isinstance(attrs, AvgPool1DAttrs | AvgPool3DAttrs), "the operator is a mean of windows"
    plain = DATA_LAYOUTS[len(attrs.pool_size)].name
    lengths = shape_in("average pooling", orig.args[0], attrs.layout, plain)[2:]
    matrices: list[NDArray[np.float64]] = []
    for length, slide in zip(lengths, slides_of(lengths, attrs), strict=True):
        matrix = np.zeros((slide.count, sum((length, *slide.added(length)))))
        for tap in range(slide.size):
            matrix[np.arange(slide.count), np.arange(matrix.shape[1])[slide.positions(tap)]] = 1
        count = np.maximum(slide.covered(length, include_pad=attrs.count_include_pad), 1)
        matrices.append(matrix[:, slide.sides[0] : slide.sides[0] + length] / count[:, np.newaxis])
    return [_averaged(orig, grad, (attrs.layout, attrs.out_layout), matrices)]


def _adaptive_avg_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, AdaptivePoolAttrs)
    plain = DATA_LAYOUTS[len(parse_layout(attrs.layout).primal) - 2].name
    lengths = shape_in("adaptive pooling", orig.args[0], attrs.layout, plain)[2:]
    sizes = [size for size in sizes_of(lengths, attrs) if isinstance(size, int)]
    matrices: list[NDArray[np.float64]] = []
    for length, size in zip(lengths, sizes, strict=True):
        matrix = np.zeros((size, length))
        for row, part in zip(matrix, bins_of(length, size), strict=True):
            row[part] = 1 / (part.stop - part.start)
        matrices.append(matrix)
    return [_averaged(orig, grad, (attrs.layout, attrs.out_layout), matrices)]


def _adaptive_max_pool(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, AdaptivePoolAttrs)
    plain = DATA_LAYOUTS[len(parse_layout(attrs.layout).primal) - 2].name
    shape = shape_in("adaptive pooling", data, attrs.layout, plain)
    counts = [size for size in sizes_of(shape[2:], attrs) if isinstance(size, int)]
    images = in_layout(data, attrs.layout, plain)
    elements: list[NDArray[np.int64]] = []
    windows: list[Window] = []
    for axis, (length, count) in enumerate(zip(shape[2:], counts, strict=True), 2):
        bins = bins_of(length, count)
        size = max(part.stop - part.start for part in bins)
        # With its last element repeated, a smaller bin is a window of equal size with the same maximum.
        elements.append(np.array([min(part.start + tap, part.stop - 1) for part in bins for tap in range(size)]))
        windows.append({"pool_size": (size, 1), "strides": (size, 1)})
        images = take(images, const(elements[-1]), axis)
    part = in_layout(grad, attrs.out_layout or attrs.layout, plain)
    slope = _max_slope(part, images, (*shape[:2], *map(len, elements)), counts, windows)
    for axis, chosen in enumerate(elements, 2):
        slope = multiply_axis(slope, axis, len(shape), np.eye(shape[axis])[chosen].T, tensor_type(data).dtype)
    return [in_layout(slope, plain, attrs.layout)]


register_gradient("nn.max_pool1d", _max_pool)
register_gradient("nn.max_pool3d", _max_pool)
register_gradient("nn.avg_pool1d", _avg_pool)
register_gradient("nn.avg_pool3d", _avg_pool)
for _rank in (1, 2, 3):
    register_gradient(f"nn.adaptive_avg_pool{_rank}d", _adaptive_avg_pool)
    register_gradient(f"nn.adaptive_max_pool{_rank}d", _adaptive_max_pool)
