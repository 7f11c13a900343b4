"""Quantized operators, expressed by integer and float arithmetic."""

from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype, round_half_even
from apass.relay.frontend.onnx.convert.cast import GREATEST, saturated
from apass.relay.frontend.onnx.convert.conv import convolved
from apass.relay.frontend.onnx.convert.matmul import product
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.frontend.onnx.protos import dtype_of
from apass.relay.ir.expr import Expr, const

__all__ = ["TABLE"]

RANGES: Final = {
    "int2": (-2, 1),
    "uint2": (0, 3),
    "int4": (-8, 7),
    "uint4": (0, 15),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-32768, 32767),
    "uint16": (0, 65535),
}
"""The range of each integer type that values are quantized to."""


def spread(node: Node, part: Expr, data: Expr) -> Expr:
    """Return scales or zero points in a shape that broadcasts to the data.

    There is one for all elements, one for each index of an axis, or one for each block of an axis.
    """
    rank = node.rank(part)
    block = node.integer("block_size", 0)
    if rank == 0 or node.shape(part) == (1,):
        return op.reshape(part, ())
    axis = node.axis(data, 1)
    if block:
        repeated = op.repeat(part, block, axis)
        dim = node.static_dim(data, axis)
        if node.static_dim(repeated, axis) == dim:
            return repeated
        return op.strided_slice(repeated, begin=[0], end=[dim], axes=[axis])
    inner_rank = node.rank(data) - axis - 1
    return op.expand_dims(part, axis=1, num_newaxis=inner_rank) if inner_rank else part


def quantize(node: Node) -> Expr:
    """Return the data divided by a scale, rounded, shifted, and clipped to a type."""
    data, scale, zero = node[0], node[1], node.get(2)
    elem_type = node.integer("output_dtype", 0)
    dtype = node.dtype(zero) if zero is not None else dtype_of(elem_type) if elem_type else "uint8"
    precision = node.integer("precision", 0)
    wide = dtype_of(precision) if precision else np.result_type(node.dtype(data), node.dtype(scale)).name
    factor = as_dtype(node, spread(node, scale, data), wide)
    quotient = op.divide(as_dtype(node, data, wide), factor)
    shift = None if zero is None else spread(node, zero, data)
    if dtype in RANGES:
        return to_range(node, quotient, shift, dtype)
    if dtype in GREATEST:
        return saturated(node, quotient, dtype) if node.integer("saturate", 1) else op.cast(quotient, dtype)
    moved = quotient if shift is None else op.add(quotient, as_dtype(node, shift, wide))
    return op.cast(moved, dtype)


def to_range(node: Node, quotient: Expr, shift: Expr | None, dtype: str) -> Expr:
    """Return numbers rounded, shifted, and clipped to the range of an integer type."""
    low, high = RANGES[dtype]
    zero = const(0, "int32") if shift is None else as_dtype(node, shift, "int32")
    # A cast of a float that does not fit into 32 bits is undefined, so clip before the cast.
    near = op.clip(round_half_even(node, as_dtype(node, quotient, "float32")), -(2.0**24), 2.0**24)
    moved = op.add(op.cast(near, "int32"), zero)
    return op.cast(op.clip(moved, low, high), dtype)


def dequantize(node: Node) -> Expr:
    """Return the data minus a zero point, multiplied by a scale."""
    data, scale, zero = node[0], node[1], node.get(2)
    elem_type = node.integer("output_dtype", 0)
    dtype = dtype_of(elem_type) if elem_type else node.dtype(scale)
    centred = op.cast(data, "float32")
    if zero is not None and node.dtype(data) not in GREATEST:
        centred = op.subtract(centred, op.cast(spread(node, zero, data), "float32"))
    factor = as_dtype(node, spread(node, scale, data), "float32")
    return as_dtype(node, op.multiply(centred, factor), dtype)


def _centred(node: Node, index: int) -> Expr:
    """Return an input minus its zero point (two inputs later), in 32 bits."""
    return op.subtract(op.cast(node[index], "int32"), op.cast(_column(node, node[index + 2], index), "int32"))


def _column(node: Node, part: Expr, index: int) -> Expr:
    """Return scales or zero points of a matrix operand, ready to be broadcast.

    Those of the rows of the left operand become a column.
    """
    if node.rank(part) == 1 and node.shape(part) != (1,) and index == 0:
        return op.expand_dims(part, axis=1)
    return op.reshape(part, ()) if node.shape(part) == (1,) else part


def qlinear_matmul(node: Node) -> Expr:
    """Return the quantized product of quantized tensors."""
    total = product(node, _centred(node, 0), _centred(node, 3))
    scales = [as_dtype(node, _column(node, node[index], index - 1), "float32") for index in (1, 4)]
    scaled = op.multiply(op.cast(total, "float32"), op.multiply(*scales))
    out_scale = as_dtype(node, _column(node, node[6], 0), "float32")
    return to_range(node, op.divide(scaled, out_scale), _column(node, node[7], 0), node.dtype(node[7]))


def qlinear_conv(node: Node) -> Expr:
    """Return the quantized convolution of quantized tensors.

    The weight may have one scale for each output channel.
    """
    weight = node[3]
    rank = node.rank(weight)
    zero = op.reshape(op.cast(node[5], "int32"), (-1, *[1] * (rank - 1)))
    centred = op.subtract(op.cast(weight, "int32"), zero)
    data = op.subtract(op.cast(node[0], "int32"), op.reshape(op.cast(node[2], "int32"), ()))
    total = convolved(node, data, centred, "int32")
    bias = node.get(8)
    if bias is not None:
        total = op.add(total, op.reshape(bias, (-1, *[1] * (rank - 2))))
    by_channel = op.reshape(node[4], (-1, *[1] * (rank - 2)))
    scale = op.divide(op.multiply(by_channel, op.reshape(node[1], ())), op.reshape(node[6], ()))
    scaled = op.multiply(op.cast(total, "float32"), scale)
    return to_range(node, scaled, op.reshape(node[7], ()), node.dtype(node[7]))


TABLE: Final[Table] = {
    ("", "DequantizeLinear", 10): dequantize,
    ("", "QLinearConv", 10): qlinear_conv,
    ("", "QLinearMatMul", 10): qlinear_matmul,
    ("", "QuantizeLinear", 10): quantize,
}
"""The converters of this module."""
