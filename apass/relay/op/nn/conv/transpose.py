"""Transposed convolutions: nn.conv1d_transpose, conv2d_ and conv3d_transpose.

In a kernel layout of nn.conv2d_transpose, I is the axis of the channels of the data, and O that of the result. In those
of the other two, O is the axis of the channels of the data, and I that of the result: the layout names the axes of the
convolution whose transpose is computed. This difference is that of TVM 0.8.0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.op.define.dims import product
from apass.relay.op.define.layout import Layout, convert_array, parse_layout
from apass.relay.op.nn.conv.kernel import accumulator, convolve_transposed
from apass.relay.op.nn.define import define_with_weight
from apass.relay.op.nn.relations import layout_like, must_divide, must_fit, out_type, shape_in_layout
from apass.relay.op.nn.windows import DATA_LAYOUTS, both_sides, check_windows, ints, padding_of, spans

__all__ = [
    "TRANSPOSED_KERNEL_LAYOUTS",
    "Conv1DTransposeAttrs",
    "Conv2DTransposeAttrs",
    "Conv3DTransposeAttrs",
    "ConvTransposeAttrs",
    "conv1d_transpose",
    "conv2d_transpose",
    "conv3d_transpose",
]

TRANSPOSED_KERNEL_LAYOUTS: Final[tuple[Layout, ...]] = tuple(map(parse_layout, ("OI", "OIW", "IOHW", "OIDHW")))
"""Plain layouts by number of spatial dimensions.

The first axis is that of the channels of the data, the second that of the channels of the result.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTransposeAttrs(Attrs):
    """The attributes that the three transposed convolutions share."""

    channels: int | None = None
    """The number of output channels; None for that of the weight."""
    kernel_size: tuple[int, ...] | None = None
    """The size of the window; None for that of the weight."""
    strides: tuple[int, ...]
    """The distance between the windows of neighbouring elements."""
    output_padding: tuple[int, ...]
    """The number of elements added at the end of each spatial dimension of the result."""
    padding: tuple[int, ...]
    """The number of elements removed before each spatial dimension, then after each; one number each for both sides."""
    dilation: tuple[int, ...]
    """The distance between the elements of a window."""
    groups: int = 1
    """The number of groups; each convolves its own part of the channels."""
    data_layout: str
    """The layout of the data."""
    kernel_layout: str
    """The layout of the weight."""
    out_layout: str = ""
    """The layout of the result; empty for that of the data."""
    out_dtype: str = ""
    """The element type of the result; empty for that of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1DTransposeAttrs(ConvTransposeAttrs):
    """The attributes of nn.conv1d_transpose."""

    strides: tuple[int, ...] = (1,)
    """The distance between windows."""
    output_padding: tuple[int, ...] = (0,)
    """The number of elements added on the right of the result."""
    padding: tuple[int, ...] = (0,)
    """The number of elements removed on the left and on the right."""
    dilation: tuple[int, ...] = (1,)
    """The distance between the elements of a window."""
    data_layout: str = "NCW"
    """The layout of the data."""
    kernel_layout: str = "OIW"
    """The layout of the weight."""

    def __post_init__(self) -> None:
        """Keep the first output padding only, because TVM ignores further ones."""
        if isinstance(self.output_padding, tuple):
            object.__setattr__(self, "output_padding", self.output_padding[:1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2DTransposeAttrs(ConvTransposeAttrs):
    """The attributes of nn.conv2d_transpose."""

    strides: tuple[int, ...] = (1, 1)
    """The distance between windows."""
    output_padding: tuple[int, ...] = (0, 0)
    """The numbers of elements added at the bottom and on the right of the result."""
    padding: tuple[int, ...] = (0, 0)
    """The numbers of elements removed at the top, left, bottom, right."""
    dilation: tuple[int, ...] = (1, 1)
    """The distance between the elements of a window."""
    data_layout: str = "NCHW"
    """The layout of the data."""
    kernel_layout: str = "OIHW"
    """The layout of the weight; as in TVM, `conv2d_transpose` has another default, so that the text contains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv3DTransposeAttrs(ConvTransposeAttrs):
    """The attributes of nn.conv3d_transpose."""

    strides: tuple[int, ...] = (1, 1, 1)
    """The distance between windows."""
    output_padding: tuple[int, ...] = (0, 0, 0)
    """The numbers of elements added at the back, at the bottom and on the right of the result."""
    padding: tuple[int, ...] = (0, 0, 0)
    """The numbers of elements removed at the front, top, left, back, bottom, right."""
    dilation: tuple[int, ...] = (1, 1, 1)
    """The distance between the elements of a window."""
    data_layout: str = "NCDHW"
    """The layout of the data."""
    kernel_layout: str = "OIDHW"
    """The layout of the weight."""


def _define(name: str, attrs_type: type[ConvTransposeAttrs], rank: int) -> Op:
    return define_with_weight(name, attrs_type, rank, "Transposed convolution", _relate, _compute)


def _relate(
    op: str, rank: int, data: TensorType, weight: TensorType | None, attrs: ConvTransposeAttrs
) -> Sequence[Type | None] | None:
    check_windows(op, rank, attrs)
    plain = DATA_LAYOUTS[rank]
    src = layout_like(op, "data_layout", attrs.data_layout, plain)
    dst = layout_like(op, "out_layout", attrs.out_layout or attrs.data_layout, plain)
    batch, channels, *lengths = shape_in_layout(op, "the data", data.shape, src, plain)
    must_divide(op, "the number of input channels", channels, attrs.groups)
    kernel = _kernel(op, rank, weight, attrs)
    if kernel is None:
        return None
    group_channels, *window = kernel
    layout = parse_layout(attrs.kernel_layout)
    weight_shape = shape_in_layout(
        op, "the weight", (channels, group_channels, *window), TRANSPOSED_KERNEL_LAYOUTS[rank], layout
    )
    shape = (batch, product((group_channels, attrs.groups)), *_lengths(op, lengths, window, attrs))
    result = out_type(shape_in_layout(op, "the result", shape, plain, dst), attrs.out_dtype, data)
    return [None, must_fit(op, "the weight", weight, TensorType(weight_shape, data.dtype)), result]


def _kernel(op: str, rank: int, weight: TensorType | None, attrs: ConvTransposeAttrs) -> tuple[Dim, ...] | None:
    """Return the output channels of a group and the size of the window.

    Return None if neither the weight nor the attributes contain them.
    """
    layout = layout_like(op, "kernel_layout", attrs.kernel_layout, TRANSPOSED_KERNEL_LAYOUTS[rank])
    if attrs.channels is not None:
        must_divide(op, "the number of output channels", attrs.channels, attrs.groups)
    group_channels = None if attrs.channels is None else attrs.channels // attrs.groups
    if weight is None:
        return None if group_channels is None or attrs.kernel_size is None else (group_channels, *attrs.kernel_size)
    _, depth, *window = shape_in_layout(op, "the weight", weight.shape, layout, TRANSPOSED_KERNEL_LAYOUTS[rank])
    return (
        depth if group_channels is None else group_channels,
        *(window if attrs.kernel_size is None else attrs.kernel_size),
    )


def _lengths(op: str, lengths: Sequence[Dim], window: Sequence[Dim], attrs: ConvTransposeAttrs) -> list[Dim]:
    rank = len(lengths)
    result: list[Dim] = []
    for axis, span in enumerate(spans(window, attrs.dilation)):
        removed = sum(both_sides(attrs.padding, rank)[axis])
        spread = (lengths[axis] - 1) * attrs.strides[axis]
        length = spread + span + attrs.output_padding[axis] - removed
        if isinstance(length, int) and length < 1:
            raise TypeInferenceError(f"{op}: padding {attrs.padding} leaves a result of length {length}; reduce it")
        result.append(length)
    return result


def _compute(attrs: ConvTransposeAttrs, data: Array, weight: Array) -> Array:
    rank = len(attrs.strides)
    plain, dst = DATA_LAYOUTS[rank], parse_layout(attrs.out_layout or attrs.data_layout)
    dtype = attrs.out_dtype or str(data.dtype)
    images = convert_array(data, parse_layout(attrs.data_layout), plain).astype(accumulator(dtype), copy=False)
    taps = convert_array(weight, parse_layout(attrs.kernel_layout), TRANSPOSED_KERNEL_LAYOUTS[rank])
    taps = taps.astype(accumulator(dtype), copy=False)
    sides, extra = both_sides(attrs.padding, rank), attrs.output_padding
    out = convolve_transposed(images, taps, attrs.strides, sides, attrs.dilation, attrs.groups, extra)
    return convert_array(out.astype(dtype, copy=False), plain, dst)


_CONV1D_TRANSPOSE = _define("nn.conv1d_transpose", Conv1DTransposeAttrs, 1)
_CONV2D_TRANSPOSE = _define("nn.conv2d_transpose", Conv2DTransposeAttrs, 2)
_CONV3D_TRANSPOSE = _define("nn.conv3d_transpose", Conv3DTransposeAttrs, 3)


def conv1d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Iterable[int] = (1,),
    padding: int | Iterable[int] = (0,),
    dilation: int | Iterable[int] = (1,),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    output_padding: int | Iterable[int] = (0,),
    out_dtype: str = "",
) -> Call:
    """Return the transposed convolution of sequences; see `conv2d_transpose`."""
    attrs = Conv1DTransposeAttrs(
        channels=None if channels is None else int(channels),
        kernel_size=None if kernel_size is None else ints(kernel_size, 1),
        strides=ints(strides, 1),
        output_padding=ints(output_padding, 1),
        padding=ints(padding, 1),
        dilation=ints(dilation, 1),
        groups=int(groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )
    return Call(_CONV1D_TRANSPOSE, (data, weight), attrs)


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: int | Iterable[int] = (0, 0),
    out_dtype: str = "",
) -> Call:
    """Return the transposed convolution of images with a weight.

    Each element of the data adds its multiple of the weight to the result. `padding` is removed from the result, and
    `output_padding` is added at the bottom and on the right. In `kernel_layout`, I is the axis of the channels of the
    data, and O that of the result. If the weight has no type yet, its type is inferred from `channels` and
    `kernel_size`.

    Raises:
        ValueError: if `padding` has another number of sides than 1, 2 or 4.

    """
    attrs = Conv2DTransposeAttrs(
        channels=None if channels is None else int(channels),
        kernel_size=None if kernel_size is None else ints(kernel_size, 2),
        strides=ints(strides, 2),
        output_padding=ints(output_padding, 2),
        padding=padding_of(padding, 2),
        dilation=ints(dilation, 2),
        groups=int(groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )
    return Call(_CONV2D_TRANSPOSE, (data, weight), attrs)


def conv3d_transpose(
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
    output_padding: int | Iterable[int] = (0, 0, 0),
    out_dtype: str = "",
) -> Call:
    """Return the transposed convolution of volumes; see `conv2d_transpose`."""
    attrs = Conv3DTransposeAttrs(
        channels=None if channels is None else int(channels),
        kernel_size=None if kernel_size is None else ints(kernel_size, 3),
        strides=ints(strides, 3),
        output_padding=ints(output_padding, 3),
        padding=padding_of(padding, 3),
        dilation=ints(dilation, 3),
        groups=int(groups),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )
    return Call(_CONV3D_TRANSPOSE, (data, weight), attrs)
