"""Convolutions."""

from collections.abc import Callable
from typing import Final

from apass.relay import op
from apass.relay.frontend.onnx.convert.matmul import centred
from apass.relay.frontend.onnx.convert.windows import Windows, windows_from, windows_of
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Expr
from apass.relay.op import nn

__all__ = ["TABLE", "convolved"]

CONVOLVE: Final[dict[int, Callable[..., Expr]]] = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
"""Convolutions by the number of spatial dimensions."""

TRANSPOSED: Final[dict[int, Callable[..., Expr]]] = {
    1: nn.conv1d_transpose,
    2: nn.conv2d_transpose,
    3: nn.conv3d_transpose,
}
"""Transposed convolutions by the number of spatial dimensions."""


def convolved(node: Node, data: Expr, weight: Expr, out_dtype: str = "") -> Expr:
    """Return a convolution with the attributes of a node."""
    channels, _, *sizes = node.static_shape(weight)
    windows = windows_of(node, data, sizes)
    return CONVOLVE[len(sizes)](
        data,
        weight,
        strides=windows.strides,
        padding=windows.pads,
        dilation=windows.dilations,
        groups=node.integer("group", 1),
        channels=channels,
        kernel_size=windows.sizes,
        out_dtype=out_dtype,
    )


def conv(node: Node) -> Expr:
    """Return a convolution with an optional bias for each channel."""
    return biased(convolved(node, node[0], node[1]), node.get(2))


def biased(data: Expr, bias: Expr | None) -> Expr:
    """Return the data plus a bias for each channel, or the data if there is no bias."""
    return data if bias is None else nn.bias_add(data, bias)


def conv_transpose(node: Node) -> Expr:
    """Return a transposed convolution with an optional bias for each channel."""
    data, weight = node[0], node[1]
    _, group_channels, *sizes = node.static_shape(weight)
    rank, groups = len(sizes), node.integer("group", 1)
    windows = windows_from(node, sizes)
    extra = (node.integers("output_padding") or (0,) * rank)[:rank]
    pads, added = _output_pads(node, data, windows, extra)
    result = TRANSPOSED[rank](
        data,
        weight,
        strides=windows.strides,
        padding=pads,
        dilation=windows.dilations,
        groups=groups,
        channels=group_channels * groups,
        kernel_size=windows.sizes,
        output_padding=added,
    )
    return biased(result, node.get(2))


def _output_pads(
    node: Node, data: Expr, windows: Windows, extra: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the padding (cropped from the result) and the output padding (added)."""
    rank, mode = len(windows.sizes), node.text("auto_pad", "NOTSET")
    shape = node.integers("output_shape")
    if shape is None and mode in ("NOTSET", "", "VALID"):
        return windows.pads if mode != "VALID" else (0,) * (2 * rank), extra
    dims = node.static_shape(data)[2:]
    lengths = (
        [dim * stride for dim, stride in zip(dims, windows.strides, strict=True)] if shape is None else shape[-rank:]
    )
    totals = [
        stride * (dim - 1) + more + span - size
        for stride, dim, more, span, size in zip(windows.strides, dims, extra, windows.spans, lengths, strict=True)
    ]
    # A negative total means that the result is too short: it is extended at the end.
    added = tuple(more + max(-total, 0) for more, total in zip(extra, totals, strict=True))
    less = tuple(max(total, 0) // 2 for total in totals)
    more = tuple(max(total, 0) - half for total, half in zip(totals, less, strict=True))
    return (*less, *more) if mode == "SAME_UPPER" else (*more, *less), added


def conv_integer(node: Node) -> Expr:
    """Return a convolution of integers minus their zero points, in 32 bits."""
    data = centred(node, 0, 2, -1)
    weight, zero = op.cast(node[1], "int32"), node.get(3)
    if zero is not None:
        shift = op.reshape(op.cast(zero, "int32"), (-1, *[1] * (node.rank(weight) - 1)))
        weight = op.subtract(weight, shift)
    return convolved(node, data, weight, "int32")


TABLE: Final[Table] = {
    ("", "Conv", 1): conv,
    ("", "ConvInteger", 10): conv_integer,
    ("", "ConvTranspose", 1): conv_transpose,
}
"""The converters of this module."""
