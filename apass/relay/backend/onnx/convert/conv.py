"""Convolutions and transposed convolutions, in all layouts."""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay.backend.onnx.convert.shape import in_layout
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Site, Table
from apass.relay.ir.ty import Dim
from apass.relay.op.define.layout import Layout, convert_shape, parse_layout
from apass.relay.op.nn.conv.conv import KERNEL_LAYOUTS, ConvAttrs
from apass.relay.op.nn.conv.deformable import DeformableConv2DAttrs
from apass.relay.op.nn.conv.transpose import TRANSPOSED_KERNEL_LAYOUTS, ConvTransposeAttrs
from apass.relay.op.nn.windows import DATA_LAYOUTS, padding_of

__all__ = ["TABLE", "from_plain", "to_plain"]


def to_plain(site: Site, index: int, layout: str, rank: int) -> tuple[Tensor, tuple[Dim, ...]]:
    """Return data in layout NC..., and its dimensions."""
    src, plain = parse_layout(layout), DATA_LAYOUTS[rank]
    shape = site.shape(index)
    return in_layout(site, site[index], shape, src, plain), convert_shape(shape, src, plain)


def from_plain(site: Site, tensor: Tensor, layout: str, rank: int) -> Tensor:
    """Return a result in layout NC..., converted to a layout."""
    plain, dst = DATA_LAYOUTS[rank], parse_layout(layout)
    return in_layout(site, tensor, convert_shape(site.result.shape, dst, plain), plain, dst)


def _weight(site: Site, index: int, layout: str, plain: Layout) -> tuple[Tensor, tuple[Dim, ...]]:
    src = parse_layout(layout)
    shape = site.shape(index)
    return in_layout(site, site[index], shape, src, plain), convert_shape(shape, src, plain)


def conv(site: Site) -> Tensor:
    """Return a convolution."""
    attrs = site.attrs(ConvAttrs)
    rank = len(attrs.strides)
    data, dims = to_plain(site, 0, attrs.data_layout, rank)
    weight, kernel = _weight(site, 1, attrs.kernel_layout, KERNEL_LAYOUTS[rank])
    if dims[1] == attrs.groups and kernel[1] != 1:
        # Relay has the channel multiplier of a depthwise convolution in the second axis.
        window = site.static_dims(kernel[2:])
        weight = site.builder.reshape(weight, [-1, 1, *window])
        kernel = (int(np.prod(site.static_dims(kernel[:2]))), 1, *window)
    dtype = attrs.out_dtype or site.type().dtype
    data, weight = site.builder.cast(data, dtype), site.builder.cast(weight, dtype)
    if dtype in ("float16", "bfloat16", "float32"):
        result = site.builder.emit(
            "Conv",
            data,
            weight,
            strides=list(attrs.strides),
            dilations=list(attrs.dilation),
            group=attrs.groups,
            kernel_shape=list(site.static_dims(kernel[2:])),
            pads=list(padding_of(attrs.padding, rank)),
        )
    else:
        result = _by_columns(site, data, site.static_dims(dims), weight, site.static_dims(kernel))
    return from_plain(site, result, attrs.out_layout or attrs.data_layout, rank)


def _by_columns(site: Site, data: Tensor, dims: tuple[int, ...], weight: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """Return a convolution as a product of matrices.

    The elements of all windows are gathered to the columns of a matrix. This is for element types that Conv lacks.
    """
    attrs, builder = site.attrs(ConvAttrs), site.builder
    rank, groups = len(attrs.strides), attrs.groups
    pads = padding_of(attrs.padding, rank)
    padded = builder.pad(data, [0, 0, *pads[:rank], 0, 0, *pads[rank:]], builder.constant(0, data.dtype))
    sizes = [dims[axis + 2] + pads[axis] + pads[axis + rank] for axis in range(rank)]
    positions, counts = _windows(sizes, kernel[2:], attrs.strides, attrs.dilation)
    batch, channels, taps = dims[0], dims[1], int(np.prod(kernel[2:]))
    flat = builder.reshape(padded, [batch, channels, int(np.prod(sizes))])
    columns = builder.gather(flat, builder.ints(positions.reshape(-1).tolist()), 2)
    matrix = builder.reshape(columns, [batch, groups, channels // groups * taps, int(np.prod(counts))])
    rows = builder.reshape(weight, [1, groups, kernel[0] // groups, kernel[1] * taps])
    return builder.reshape(builder.emit("MatMul", rows, matrix), [batch, kernel[0], *counts])


def _windows(
    sizes: Sequence[int], window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], list[int]]:
    """Return flat positions and the numbers of windows.

    The positions have a row for each element of a window.
    """
    axes = list(zip(sizes, window, strides, dilation, strict=True))
    counts = [(size - (taps - 1) * gap - 1) // stride + 1 for size, taps, stride, gap in axes]
    rows = [
        np.ravel_multi_index(
            np.meshgrid(
                *(
                    tap * gap + np.arange(count) * stride
                    for tap, count, (_, _, stride, gap) in zip(taps, counts, axes, strict=True)
                ),
                indexing="ij",
            ),
            tuple(sizes),
        ).reshape(-1)
        for taps in itertools.product(*map(range, window))
    ]
    return np.stack(rows).astype(np.int64), counts


def conv_transpose(site: Site) -> Tensor:
    """Return a transposed convolution."""
    attrs = site.attrs(ConvTransposeAttrs)
    rank = len(attrs.strides)
    data, _ = to_plain(site, 0, attrs.data_layout, rank)
    weight, kernel = _weight(site, 1, attrs.kernel_layout, TRANSPOSED_KERNEL_LAYOUTS[rank])
    dtype = attrs.out_dtype or site.type().dtype
    result = site.builder.emit(
        "ConvTranspose",
        site.builder.cast(data, dtype),
        site.builder.cast(weight, dtype),
        strides=list(attrs.strides),
        dilations=list(attrs.dilation),
        group=attrs.groups,
        kernel_shape=list(site.static_dims(kernel[2:])),
        output_padding=list(attrs.output_padding),
        pads=list(padding_of(attrs.padding, rank)),
    )
    return from_plain(site, result, attrs.out_layout or attrs.data_layout, rank)


def deformable_conv(site: Site) -> Tensor:
    """Return a convolution whose windows are moved by offsets."""
    attrs = site.attrs(DeformableConv2DAttrs)
    data, _ = to_plain(site, 0, attrs.data_layout, 2)
    offset, _ = to_plain(site, 1, attrs.data_layout, 2)
    weight, kernel = _weight(site, 2, attrs.kernel_layout, KERNEL_LAYOUTS[2])
    result = site.builder.emit(
        "DeformConv",
        data,
        weight,
        offset,
        strides=list(attrs.strides),
        dilations=list(attrs.dilation),
        group=attrs.groups,
        offset_group=attrs.deformable_groups,
        kernel_shape=list(site.static_dims(kernel[2:])),
        pads=list(padding_of(attrs.padding, 2)),
    )
    return site.builder.cast(from_plain(site, result, attrs.out_layout or attrs.data_layout, 2), site.result.dtype)


TABLE: Final[Table] = {
    "nn.contrib_conv2d_NCHWc": conv,
    "nn.contrib_depthwise_conv2d_NCHWc": conv,
    "nn.conv1d": conv,
    "nn.conv1d_transpose": conv_transpose,
    "nn.conv2d": conv,
    "nn.conv2d_transpose": conv_transpose,
    "nn.conv3d": conv,
    "nn.conv3d_transpose": conv_transpose,
    "nn.deformable_conv2d": deformable_conv,
}
"""The converters of this module."""
