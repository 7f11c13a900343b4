"""Convolutions: nn.conv1d, nn.conv2d, nn.conv3d.

They support groups, dilation, and all layouts of data and weights.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.op.define.dims import product
from apass.relay.op.define.layout import Layout, convert_array, parse_layout
from apass.relay.op.nn.conv.kernel import accumulator, convolve
from apass.relay.op.nn.define import define_with_weight
from apass.relay.op.nn.relations import layout_like, must_divide, must_fit, out_type, shape_in_layout
from apass.relay.op.nn.windows import DATA_LAYOUTS, both_sides, check_windows, ints, padding_of, spans, window_count

__all__ = [
    "KERNEL_LAYOUTS",
    "Conv1DAttrs",
    "Conv2DAttrs",
    "Conv3DAttrs",
    "ConvAttrs",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_attrs",
    "define_conv",
]

KERNEL_LAYOUTS: Final[tuple[Layout, ...]] = tuple(map(parse_layout, ("OI", "OIW", "OIHW", "OIDHW")))
"""The layout of weights in kernels, by the number of spatial dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvAttrs(Attrs):
    """The attributes that conv1d, conv2d and conv3d share."""

    strides: tuple[int, ...]
    """The distance between windows."""
    padding: tuple[int, ...]
    """The padding with zeros before each spatial dimension, then after each; one number each for both sides."""
    dilation: tuple[int, ...]
    """The distance between the elements of a window."""
    groups: int = 1
    """The number of groups; each convolves its own part of the channels."""
    channels: int | None = None
    """The number of output channels; None for that of the weight."""
    kernel_size: tuple[int, ...] | None = None
    """The size of the window; None for that of the weight."""
    data_layout: str
    """The layout of the data."""
    kernel_layout: str
    """The layout of the weight."""
    out_layout: str = ""
    """The layout of the result; empty for that of the data."""
    out_dtype: str = ""
    """The element type of the result; empty for that of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1DAttrs(ConvAttrs):
    """The attributes of nn.conv1d."""

    strides: tuple[int, ...] = (1,)
    """The distance between windows."""
    padding: tuple[int, ...] = (0, 0)
    """The padding with zeros on the left and on the right."""
    dilation: tuple[int, ...] = (1,)
    """The distance between the elements of a window."""
    data_layout: str = "NCW"
    """The layout of the data."""
    kernel_layout: str = "OIW"
    """The layout of the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2DAttrs(ConvAttrs):
    """The attributes of nn.conv2d."""

    strides: tuple[int, ...] = (1, 1)
    """The distance between windows."""
    padding: tuple[int, ...] = (0, 0)
    """The padding with zeros at the top, left, bottom, right."""
    dilation: tuple[int, ...] = (1, 1)
    """The distance between the elements of a window."""
    data_layout: str = "NCHW"
    """The layout of the data."""
    kernel_layout: str = "OIHW"
    """The layout of the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv3DAttrs(ConvAttrs):
    """The attributes of nn.conv3d."""

    strides: tuple[int, ...] = (1, 1, 1)
    """The distance between windows."""
    padding: tuple[int, ...] = (0, 0, 0)
    """The padding with zeros at the front, top, left, back, bottom, right."""
    dilation: tuple[int, ...] = (1, 1, 1)
    """The distance between the elements of a window."""
    data_layout: str = "NCDHW"
    """The layout of the data."""
    kernel_layout: str = "OIDHW"
    """The layout of the weight."""


def define_conv(name: str, attrs_type: type[ConvAttrs], rank: int) -> Op:
    """Register a convolution over `rank` spatial dimensions and return it."""
    return define_with_weight(name, attrs_type, rank, "Convolution", _relate, _compute)


def _relate(
    op: str, rank: int, data: TensorType, weight: TensorType | None, attrs: ConvAttrs
) -> Sequence[Type | None] | None:
    check_windows(op, rank, attrs)
    plain = DATA_LAYOUTS[rank]
    src = layout_like(op, "data_layout", attrs.data_layout, plain)
    dst = layout_like(op, "out_layout", attrs.out_layout or attrs.data_layout, plain)
    batch, channels, *lengths = shape_in_layout(op, "the data", data.shape, src, plain)
    must_divide(op, "the number of input channels", channels, attrs.groups)
    kernel = _kernel(op, rank, channels, weight, attrs)
    if kernel is None:
        return None
    filters, plain_shape = kernel
    must_divide(op, "the number of output channels", filters, attrs.groups)
    layout = parse_layout(attrs.kernel_layout)
    weight_shape = shape_in_layout(op, "the weight", plain_shape, KERNEL_LAYOUTS[rank], layout)
    window = zip(
        lengths, spans(plain_shape[2:], attrs.dilation), attrs.strides, both_sides(attrs.padding, rank), strict=True
    )
    counts = [window_count(op, *axis) for axis in window]
    shape = shape_in_layout(op, "the result", (batch, filters, *counts), plain, dst)
    fitting = must_fit(op, "the weight", weight, TensorType(weight_shape, data.dtype))
    return [None, fitting, out_type(shape, attrs.out_dtype, data)]


def _kernel(
    op: str, rank: int, channels: Dim, weight: TensorType | None, attrs: ConvAttrs
) -> tuple[Dim, tuple[Dim, ...]] | None:
    """Return the number of output channels and the shape of the weight in layout OI...

    Return None if neither the weight nor the attributes contain them.
    """
    layout = layout_like(op, "kernel_layout", attrs.kernel_layout, KERNEL_LAYOUTS[rank])
    shape = None if weight is None else shape_in_layout(op, "the weight", weight.shape, layout, KERNEL_LAYOUTS[rank])
    group_channels = channels // attrs.groups
    if shape is None:
        if attrs.channels is None or attrs.kernel_size is None:
            return None
        return attrs.channels, (attrs.channels, group_channels, *attrs.kernel_size)
    filters, depth, *window = shape
    window = window if attrs.kernel_size is None else list(attrs.kernel_size)
    if attrs.groups > 1 and channels == attrs.groups == filters:
        # Depthwise: the weight has one filter bank for each channel, and the channel multiplier as its axis I.
        multiplier = depth if attrs.channels is None else attrs.channels // attrs.groups
        return product((multiplier, attrs.groups)), (channels, multiplier, *window)
    filters = filters if attrs.channels is None else attrs.channels
    return filters, (filters, group_channels, *window)


def _compute(attrs: ConvAttrs, data: Array, weight: Array) -> Array:
    rank = len(attrs.strides)
    plain, dst = DATA_LAYOUTS[rank], parse_layout(attrs.out_layout or attrs.data_layout)
    dtype = attrs.out_dtype or str(data.dtype)
    images = convert_array(data, parse_layout(attrs.data_layout), plain).astype(accumulator(dtype), copy=False)
    taps = convert_array(weight, parse_layout(attrs.kernel_layout), KERNEL_LAYOUTS[rank])
    taps = taps.astype(accumulator(dtype), copy=False)
    if images.shape[1] == attrs.groups:
        taps = taps.reshape(-1, 1, *taps.shape[2:])
    out = convolve(images, taps, attrs.strides, both_sides(attrs.padding, rank), attrs.dilation, attrs.groups)
    return convert_array(out.astype(dtype, copy=False), plain, dst)


_CONV1D = define_conv("nn.conv1d", Conv1DAttrs, 1)
_CONV2D = define_conv("nn.conv2d", Conv2DAttrs, 2)
_CONV3D = define_conv("nn.conv3d", Conv3DAttrs, 3)


def conv_attrs(
    attrs_type: type[ConvAttrs],
    rank: int,
    strides: int | Iterable[int],
    padding: int | Iterable[int],
    dilation: int | Iterable[int],
    groups: int,
    channels: int | None,
    kernel_size: int | Iterable[int] | None,
    layouts: tuple[str, str, str],
    out_dtype: str,
) -> ConvAttrs:
    """Return the attributes of a convolution.

    `layouts` are those of the data, of the weight and of the result.

    Raises:
        ValueError: if `padding` has another number of sides than 1, `rank` or `2 * rank`.

    """
    data_layout, kernel_layout, out_layout = layouts
    return attrs_type(
        strides=ints(strides, rank),
        padding=padding_of(padding, rank),
        dilation=ints(dilation, rank),
        groups=int(groups),
        channels=None if channels is None else int(channels),
        kernel_size=None if kernel_size is None else ints(kernel_size, rank),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


# The functions write out their parameters, because callers pass them by position as in TVM, and the defaults depend on
# the rank. A TypedDict with `Unpack` would hide names and defaults from `inspect.signature` and forbid positions.
def conv1d(
    data: Expr,
    weight: Expr,
    strides: int | Iterable[int] = 1,
    padding: int | Iterable[int] = 0,
    dilation: int | Iterable[int] = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of a sequence; the parameters are those of `conv2d`."""
    layouts = (data_layout, kernel_layout, out_layout)
    attrs = conv_attrs(Conv1DAttrs, 1, strides, padding, dilation, groups, channels, kernel_size, layouts, out_dtype)
    return Call(_CONV1D, (data, weight), attrs)


def conv2d(
    data: Expr,
    weight: Expr,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of images with a weight.

    Parameters:
        data: the images.
        weight: the weight. If it has no type yet, its type is inferred from `channels` and `kernel_size`.
        strides: the distance between windows.
        padding: one number for all sides, two for top and bottom, left and right, or four for top, left, bottom, right.
        dilation: the distance between the elements of a window.
        groups: the number of groups. If it equals the number of input channels, the convolution is depthwise, and axis
            I of the weight may be the channel multiplier.
        channels: the number of output channels; None for that of the weight.
        kernel_size: the size of the window; None for that of the weight.
        data_layout: the layout of the data.
        kernel_layout: the layout of the weight.
        out_layout: the layout of the result; empty for that of the data.
        out_dtype: the element type of the result; empty for that of the data.

    Raises:
        ValueError: if `padding` has another number of sides than 1, 2 or 4.

    """
    layouts = (data_layout, kernel_layout, out_layout)
    attrs = conv_attrs(Conv2DAttrs, 2, strides, padding, dilation, groups, channels, kernel_size, layouts, out_dtype)
    return Call(_CONV2D, (data, weight), attrs)


def conv3d(
    data: Expr,
    weight: Expr,
    strides: int | Iterable[int] = (1, 1, 1),
    padding: int | Iterable[int] = (0, 0, 0),
    dilation: int | Iterable[int] = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return the convolution of volumes; the parameters are those of `conv2d`."""
    layouts = (data_layout, kernel_layout, out_layout)
    attrs = conv_attrs(Conv3DAttrs, 3, strides, padding, dilation, groups, channels, kernel_size, layouts, out_dtype)
    return Call(_CONV3D, (data, weight), attrs)
