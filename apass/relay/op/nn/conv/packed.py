"""Convolutions of data whose channels are in blocks.

These are nn.contrib_conv2d_NCHWc and its depthwise variant.
"""

from collections.abc import Iterable

from apass.relay.ir.expr import Call, Expr
from apass.relay.op.nn.conv.conv import Conv2DAttrs, conv_attrs, define_conv

__all__ = ["contrib_conv2d_nchwc", "contrib_depthwise_conv2d_nchwc"]

_CONV2D_NCHWC = define_conv("nn.contrib_conv2d_NCHWc", Conv2DAttrs, 2)
_DEPTHWISE_NCHWC = define_conv("nn.contrib_depthwise_conv2d_NCHWc", Conv2DAttrs, 2)


def contrib_conv2d_nchwc(
    data: Expr,
    kernel: Expr,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return `conv2d` of images whose channels are in blocks."""
    layouts = (data_layout, kernel_layout, out_layout)
    attrs = conv_attrs(Conv2DAttrs, 2, strides, padding, dilation, groups, channels, kernel_size, layouts, out_dtype)
    return Call(_CONV2D_NCHWC, (data, kernel), attrs)


def contrib_depthwise_conv2d_nchwc(
    data: Expr,
    kernel: Expr,
    strides: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    dilation: int | Iterable[int] = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Iterable[int] | None = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """Return depthwise `conv2d` of images whose channels are in blocks."""
    layouts = (data_layout, kernel_layout, out_layout)
    attrs = conv_attrs(Conv2DAttrs, 2, strides, padding, dilation, groups, channels, kernel_size, layouts, out_dtype)
    return Call(_DEPTHWISE_NCHWC, (data, kernel), attrs)
