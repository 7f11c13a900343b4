"""Pooling: sliding windows, global and adaptive."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from apass.relay.backend.onnx.convert.conv import from_plain, to_plain
from apass.relay.backend.onnx.convert.reduce import average
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Converter, Site, Table
from apass.relay.ir.ty import Dim
from apass.relay.op.nn.pool.adaptive import AdaptivePoolAttrs
from apass.relay.op.nn.pool.global_pool import GlobalPool2DAttrs
from apass.relay.op.nn.pool.kernel import Slide, lowest
from apass.relay.op.nn.pool.pool import AvgPool1DAttrs, AvgPool2DAttrs, AvgPool3DAttrs, PoolAttrs
from apass.relay.op.nn.windows import both_sides

__all__ = ["TABLE"]


AvgPoolAttrs: TypeAlias = AvgPool1DAttrs | AvgPool2DAttrs | AvgPool3DAttrs


def pool(site: Site) -> Tensor:
    """Return the maximum or the mean of each window."""
    attrs = site.attrs(PoolAttrs)
    rank = len(attrs.pool_size)
    data, dims = to_plain(site, 0, attrs.layout, rank)
    sides = both_sides(attrs.padding, rank)
    if attrs.ceil_mode:
        # ONNX leaves out windows that begin after the data. Padding that all windows cover has the same result.
        slides = _slides(site, dims[2:], attrs)
        lengths = site.static_dims(dims[2:])
        needed = [slide.extent - slide.sides[0] - length for slide, length in zip(slides, lengths, strict=True)]
        sides = [(low, max(high, more)) for (low, high), more in zip(sides, needed, strict=True)]
    if isinstance(attrs, AvgPoolAttrs):
        result = _average(site, data, dims[2:], attrs, sides)
    else:
        result = _maximum(site, data, attrs, sides)
    return from_plain(site, result, attrs.out_layout or attrs.layout, rank)


def _slides(site: Site, lengths: Sequence[Dim], attrs: PoolAttrs) -> list[Slide]:
    """Return the windows of each dimension, with those that begin in the padding."""
    known = [length for length in lengths if isinstance(length, int)]
    if len(known) != len(lengths):
        raise site.unsupported(
            "ceil_mode, and padding as large as the window, need known spatial dimensions; import the model with its "
            "shapes"
        )
    rank = len(known)
    slides: list[Slide] = []
    axes = zip(known, attrs.pool_size, attrs.strides, attrs.dilation, both_sides(attrs.padding, rank), strict=True)
    for length, size, stride, gap, sides in axes:
        span = (size - 1) * gap + 1
        room = length + sum(sides) - span
        count = (-(-room // stride) if attrs.ceil_mode else room // stride) + 1
        slides.append(Slide(size, stride, gap, sides, count))
    return slides


def _window(attrs: PoolAttrs, sides: Sequence[tuple[int, int]]) -> dict[str, Any]:
    has_gaps = any(gap != 1 for gap in attrs.dilation)
    return {
        "kernel_shape": list(attrs.pool_size),
        "strides": list(attrs.strides),
        "dilations": list(attrs.dilation) if has_gaps else None,
        "pads": [low for low, _ in sides] + [high for _, high in sides],
    }


def _padded(site: Site, data: Tensor, sides: Sequence[tuple[int, int]], value: float) -> Tensor:
    pads = [0, 0, *(low for low, _ in sides), 0, 0, *(high for _, high in sides)]
    return site.builder.pad(data, pads, site.like(value))


def _are_small(attrs: PoolAttrs, sides: Sequence[tuple[int, int]]) -> bool:
    """Return whether onnxruntime accepts the padding: less than a window."""
    return all(max(pair) < size for pair, size in zip(sides, attrs.pool_size, strict=True))


def _maximum(site: Site, data: Tensor, attrs: PoolAttrs, sides: Sequence[tuple[int, int]]) -> Tensor:
    if not _are_small(attrs, sides):
        data = _padded(site, data, sides, lowest(np.dtype(site.type().dtype)))
        sides = [(0, 0)] * len(sides)
    return site.builder.emit("MaxPool", data, **_window(attrs, sides))


def _average(
    site: Site, data: Tensor, lengths: Sequence[Dim], attrs: AvgPoolAttrs, sides: Sequence[tuple[int, int]]
) -> Tensor:
    is_small = _are_small(attrs, sides)
    if not is_small:
        data, sides = _padded(site, data, sides, 0.0), [(0, 0)] * len(sides)
    counts_pads = attrs.count_include_pad or not is_small
    window = _window(attrs, sides)
    result = site.builder.emit("AveragePool", data, **window, count_include_pad=1 if counts_pads else None)
    if not counts_pads or (attrs.count_include_pad and not attrs.ceil_mode):
        return result
    # The sums were divided by the number of all elements of a window.
    counts = np.ones((), np.float64)
    for slide, length in zip(_slides(site, lengths, attrs), site.static_dims(lengths), strict=True):
        covered = slide.covered(length, include_pad=attrs.count_include_pad)
        counts = np.multiply.outer(counts, covered.astype(np.float64))
    return site.builder.emit("Mul", result, site.like(np.prod(attrs.pool_size) / np.maximum(counts, 1)))


def global_pool(is_maximum: bool) -> Converter:
    """Return the converter of global pooling."""

    def convert(site: Site) -> Tensor:
        attrs = site.attrs(GlobalPool2DAttrs)
        data, _ = to_plain(site, 0, attrs.layout, 2)
        return from_plain(site, _whole(site, data, 2, is_maximum), attrs.out_layout or attrs.layout, 2)

    return convert


def _whole(site: Site, data: Tensor, rank: int, is_maximum: bool) -> Tensor:
    if "float" in data.dtype and data.dtype != "float64":
        return site.builder.emit("GlobalMaxPool" if is_maximum else "GlobalAveragePool", data)
    axes = range(2, 2 + rank)
    if is_maximum:
        return site.builder.reduce("ReduceMax", data, axes, keepdims=True)
    return average(site, data, axes, keepdims=True)


def adaptive_pool(is_maximum: bool) -> Converter:
    """Return the converter of pooling to a given size."""

    def convert(site: Site) -> Tensor:
        attrs = site.attrs(AdaptivePoolAttrs)
        rank = site.rank() - 2 if attrs.layout.isupper() else len(parse_primal(attrs.layout)) - 2
        data, dims = to_plain(site, 0, attrs.layout, rank)
        sizes = attrs.output_size * (rank // max(len(attrs.output_size), 1)) or site.static_dims(dims[2:])
        if all(size == 1 for size in sizes):
            result = _whole(site, data, rank, is_maximum)
        else:
            result = data
            for axis, (length, size) in enumerate(zip(site.static_dims(dims[2:]), sizes, strict=True), 2):
                result = _binned(site, result, axis, length, size, is_maximum)
        return from_plain(site, result, attrs.out_layout or attrs.layout, rank)

    return convert


def parse_primal(layout: str) -> str:
    """Return the capital letters of a layout."""
    return "".join(letter for letter in layout if letter.isupper())


def _binned(site: Site, data: Tensor, axis: int, length: int, size: int, is_maximum: bool) -> Tensor:
    """Return the maximum or mean of each bin of one axis."""
    if length == size:
        return data
    parts: list[Tensor] = []
    for index in range(size):
        start, end = index * length // size, -(-(index + 1) * length // size)
        part = site.builder.slice(data, [start], [end], [axis])
        if is_maximum:
            parts.append(site.builder.reduce("ReduceMax", part, [axis], keepdims=True))
        else:
            parts.append(average(site, part, [axis], keepdims=True))
    return site.builder.concat(parts, axis)


TABLE: Final[Table] = {
    **{f"nn.avg_pool{rank}d": pool for rank in (1, 2, 3)},
    **{f"nn.max_pool{rank}d": pool for rank in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{rank}d": adaptive_pool(is_maximum=False) for rank in (1, 2, 3)},
    **{f"nn.adaptive_max_pool{rank}d": adaptive_pool(is_maximum=True) for rank in (1, 2, 3)},
    "nn.global_avg_pool2d": global_pool(is_maximum=False),
    "nn.global_max_pool2d": global_pool(is_maximum=True),
}
"""The converters of this module."""
