"""nn.deformable_conv2d: a convolution with an offset for each element of a window.

It is defined by Dai et al., arXiv 1703.06211.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType, Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.conv import KERNEL_LAYOUTS
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import layout_like, must_divide, must_fit, out_type, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS, both_sides, check_windows, ints, padding_of, spans, window_count

__all__ = ["DeformableConv2DAttrs", "deformable_conv2d"]

Floats: TypeAlias = npt.NDArray[np.float64]

_OP = "nn.deformable_conv2d"
_PLAIN, _KERNEL = DATA_LAYOUTS[2], KERNEL_LAYOUTS[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeformableConv2DAttrs(Attrs):
    """The attributes of nn.deformable_conv2d."""

    strides: tuple[int, ...] = (1, 1)
    """The distance between windows."""
    padding: tuple[int, ...] = (0, 0)
    """The padding with zeros at the top, left, bottom, right."""
    dilation: tuple[int, ...] = (1, 1)
    """The distance between the elements of a window."""
    deformable_groups: int = 1
    """The number of groups of input channels; each has its own offsets."""
    groups: int = 1
    """The number of groups; each convolves its own part of the channels."""
    channels: int | None = None
    """The number of output channels; None for that of the weight."""
    kernel_size: tuple[int, ...] | None = None
    """The size of the window; None for that of the weight."""
    data_layout: str = "NCHW"
    """The layout of the data and of the offsets."""
    kernel_layout: str = "OIHW"
    """The layout of the weight."""
    out_layout: str = ""
    """The layout of the result; empty for that of the data."""
    out_dtype: str = ""
    """The element type of the result; empty for that of the data."""


def _relation(types: Sequence[Type], attrs: DeformableConv2DAttrs) -> Sequence[Type | None] | None:
    data, offset, weight, _ = tensors(_OP, types)
    if data is None:
        return None
    check_windows(_OP, 2, attrs)
    src = layout_like(_OP, "data_layout", attrs.data_layout, _PLAIN)
    dst = layout_like(_OP, "out_layout", attrs.out_layout or attrs.data_layout, _PLAIN)
    batch, channels, *lengths = shape_in_layout(_OP, "the data", data.shape, src, _PLAIN)
    must_divide(_OP, "the number of input channels", channels, attrs.groups)
    must_divide(_OP, "the number of input channels", channels, attrs.deformable_groups)
    kernel = _kernel(weight, channels, attrs)
    if kernel is None:
        return None
    filters, _, *window = kernel
    must_divide(_OP, "the number of output channels", filters, attrs.groups)
    sides = both_sides(attrs.padding, 2)
    axes = zip(lengths, spans(window, attrs.dilation), attrs.strides, sides, strict=True)
    counts = [window_count(_OP, *axis) for axis in axes]
    taps = [size for size in window if isinstance(size, int)]
    # Each element of a window has a row offset and a column offset.
    pairs: Dim = 2 * taps[0] * taps[1] * attrs.deformable_groups if len(taps) == 2 else Any()
    offset_type = TensorType(shape_in_layout(_OP, "the offsets", (batch, pairs, *counts), _PLAIN, src), data.dtype)
    weight_shape = shape_in_layout(_OP, "the weight", kernel, _KERNEL, parse_layout(attrs.kernel_layout))
    return [
        None,
        must_fit(_OP, "the offsets", offset, offset_type),
        must_fit(_OP, "the weight", weight, TensorType(weight_shape, data.dtype)),
        out_type(shape_in_layout(_OP, "the result", (batch, filters, *counts), _PLAIN, dst), attrs.out_dtype, data),
    ]


def _kernel(weight: TensorType | None, channels: Dim, attrs: DeformableConv2DAttrs) -> tuple[Dim, ...] | None:
    """Return the shape of the weight in layout OIHW, or None if it is not known."""
    layout = layout_like(_OP, "kernel_layout", attrs.kernel_layout, _KERNEL)
    group_channels = channels // attrs.groups
    if weight is None:
        if attrs.channels is None or attrs.kernel_size is None:
            return None
        return (attrs.channels, group_channels, *attrs.kernel_size)
    filters, _, *window = shape_in_layout(_OP, "the weight", weight.shape, layout, _KERNEL)
    filters = filters if attrs.channels is None else attrs.channels
    return (filters, group_channels, *(window if attrs.kernel_size is None else attrs.kernel_size))


def _compute(attrs: DeformableConv2DAttrs, data: Array, offset: Array, weight: Array) -> Array:
    src, dst = parse_layout(attrs.data_layout), parse_layout(attrs.out_layout or attrs.data_layout)
    dtype = attrs.out_dtype or str(data.dtype)
    wide = accumulator(dtype)
    images = convert_array(data, src, _PLAIN).astype(wide, copy=False)
    taps = convert_array(weight, parse_layout(attrs.kernel_layout), _KERNEL).astype(wide, copy=False)
    offsets = convert_array(offset, src, _PLAIN)
    columns = _sampled(images, *_positions(attrs, offsets, taps.shape[2:]))
    columns = columns.reshape(len(images), attrs.groups, taps[0].size, -1)
    product: Array = np.matmul(taps.reshape(attrs.groups, len(taps) // attrs.groups, -1), columns)
    out = product.reshape(len(images), len(taps), *offsets.shape[2:])
    return convert_array(out.astype(dtype, copy=False), _PLAIN, dst)


def _positions(attrs: DeformableConv2DAttrs, offset: Array, window: Sequence[int]) -> list[Floats]:
    """Return the rows and the columns of the elements of all windows.

    The axes of each are batch, group, element of the window, height and width.
    """
    pairs = offset.reshape(len(offset), attrs.deformable_groups, window[0] * window[1], 2, *offset.shape[2:])
    positions: list[Floats] = []
    for axis, taps in enumerate(np.unravel_index(np.arange(window[0] * window[1]), tuple(window))):
        shape = [1, 1, 1]
        shape[axis + 1] = -1
        first = both_sides(attrs.padding, 2)[axis][0]
        starts: Floats = np.arange(offset.shape[2 + axis], dtype="float64") * attrs.strides[axis] - first
        regular: Floats = (taps * attrs.dilation[axis]).astype("float64").reshape(-1, 1, 1) + starts.reshape(shape)
        positions.append(np.add(pairs[:, :, :, axis].astype("float64"), regular))
    return positions


def _sampled(images: Array, rows: Floats, columns: Floats) -> Array:
    """Return bilinear interpolations of the four nearest pixels.

    A position outside of the image is 0. Between the last pixel and the border of the image, the value is mixed with 0.
    """
    batch, groups, taps, *counts = rows.shape
    height, width = images.shape[2:]
    pixels = images.reshape(batch, groups, -1, height * width)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    out: Array = np.zeros((), images.dtype)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = np.floor(rows) + down, np.floor(columns) + right
        exists = inside & (row < height) & (column < width)
        factor = np.where(exists, (1 - np.abs(rows - row)) * (1 - np.abs(columns - column)), 0)
        flat = np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1)
        near = np.take_along_axis(pixels, flat.reshape(batch, groups, 1, -1).astype("int64"), 3)
        out = np.add(out, np.multiply(near, factor.reshape(batch, groups, 1, -1).astype(images.dtype)))
    return out.reshape(batch, -1, taps, *counts)


_DEFORMABLE_CONV2D = register_op(
    _OP,
    arguments=("data", "offset", "weight"),
    attrs_type=DeformableConv2DAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=5,
    description="Convolution with an offset for each element of a window.",
)


def deformable_conv2d(
    data: Expr,
    offset: Expr,
    weight: Expr,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of images with an offset for each element of a window.

    For each deformable group and each element of the window, the offsets have a row and a column as channels. An
    element between pixels is interpolated from the four pixels around it. Outside of the image it is 0. The other
    parameters are those of `conv2d`.

    Raises:
        ValueError: if `padding` has another number of sides than 1, 2 or 4.

    """
    attrs = DeformableConv2DAttrs(
        strides=ints(strides, 2),
        padding=padding_of(padding, 2),
        dilation=ints(dilation, 2),
        deformable_groups=int(deformable_groups),
        groups=int(groups),
        channels=None if channels is None else int(channels),
        kernel_size=None if kernel_size is None else ints(kernel_size, 2),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )
    return Call(_DEFORMABLE_CONV2D, (data, offset, weight), attrs)
