"""Activation functions."""

from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype, bounded, unary
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Expr
from apass.relay.op import nn

__all__ = ["TABLE", "softplus_of"]


def scaled(node: Node, data: Expr, factor: float) -> Expr:
    """Return the elements multiplied by a number."""
    return data if factor == 1.0 else op.multiply(node.constant(factor, data), data)


def exponential(node: Node, data: Expr) -> Expr:
    """Return exp(x) - 1 for negative elements and 0 for the others."""
    dtype = node.dtype(data)
    # In 16 bits, exp(x) - 1 cancels to 0 for small x.
    wide = as_dtype(node, data, "float32" if dtype in ("float16", "bfloat16") else dtype)
    zero, one = node.constant(0, wide), node.constant(1, wide)
    return as_dtype(node, op.subtract(op.exp(op.minimum(wide, zero)), one), dtype)


def leaky_relu(node: Node) -> Expr:
    """Return the elements, with negative ones multiplied by a number."""
    return nn.leaky_relu(node[0], node.number("alpha", 0.01))


def prelu(node: Node) -> Expr:
    """Return the elements, with negative ones multiplied by a slope.

    The slope is broadcast; before version 7, a vector has one slope for each channel.
    """
    data, slope = node[0], node[1]
    is_by_channel = node.version < 7 and node.rank(slope) == 1 and node.shape(slope) != (1,)
    if is_by_channel:
        slope = op.expand_dims(slope, axis=1, num_newaxis=node.rank(data) - 2)
    return op.where(op.less(data, node.constant(0, data)), op.multiply(slope, data), data)


def elu(node: Node) -> Expr:
    """Return the elements, with negative ones as alpha * (exp(x) - 1)."""
    negative = scaled(node, exponential(node, node[0]), node.number("alpha", 1.0))
    return op.add(nn.relu(node[0]), negative)


def selu(node: Node) -> Expr:
    """Return gamma times `elu`; version 6 has more precise default constants."""
    is_first = node.version < 6
    alpha = node.number("alpha", 1.6732 if is_first else 1.67326319217681884765625)
    gamma = node.number("gamma", 1.0507 if is_first else 1.05070102214813232421875)
    return scaled(node, op.add(nn.relu(node[0]), scaled(node, exponential(node, node[0]), alpha)), gamma)


def celu(node: Node) -> Expr:
    """Return the elements, with negative ones as alpha * (exp(x / alpha) - 1)."""
    alpha, data = node.number("alpha", 1.0), node[0]
    negative = scaled(node, exponential(node, op.divide(data, node.constant(alpha, data))), alpha)
    return op.add(nn.relu(data), negative)


def gelu(node: Node) -> Expr:
    """Return x * Phi(x) for the normal distribution Phi, or the tanh approximation."""
    data = node[0]
    half, one = node.constant(0.5, data), node.constant(1, data)
    if node.text("approximate", "none") == "tanh":
        cube = op.multiply(node.constant(0.044715, data), op.multiply(op.multiply(data, data), data))
        inner = op.tanh(scaled(node, op.add(data, cube), float(np.sqrt(2 / np.pi))))
    else:
        inner = op.erf(scaled(node, data, float(np.sqrt(0.5))))
    return op.multiply(op.multiply(half, data), op.add(one, inner))


def hard_sigmoid(node: Node) -> Expr:
    """Return alpha * x + beta, clipped to [0, 1]."""
    return hard_sigmoid_of(node, node[0], node.number("alpha", 0.2), node.number("beta", 0.5))


def hard_sigmoid_of(node: Node, data: Expr, alpha: float, beta: float) -> Expr:
    """Return alpha * x + beta for given constants, clipped to [0, 1]."""
    return bounded(node, op.add(scaled(node, data, alpha), node.constant(beta, data)), 0.0, 1.0)


def hard_swish(node: Node) -> Expr:
    """Return x * hard_sigmoid(x)."""
    return op.multiply(node[0], hard_sigmoid_of(node, node[0], 1 / 6, 0.5))


def softplus_of(node: Node, data: Expr) -> Expr:
    """Return log(exp(x) + 1), without overflow."""
    # log(exp(x) + 1) = relu(x) + log(exp(-|x|) + 1), where the exponential is at most 1.
    rest = op.log(op.add(op.exp(op.negative(op.abs(data))), node.constant(1, data)))
    return op.add(nn.relu(data), rest)


def softplus(node: Node) -> Expr:
    """Return log(exp(x) + 1)."""
    return softplus_of(node, node[0])


def softsign(node: Node) -> Expr:
    """Return x / (1 + |x|)."""
    return op.divide(node[0], op.add(node.constant(1, node[0]), op.abs(node[0])))


def mish(node: Node) -> Expr:
    """Return x * tanh(softplus(x))."""
    return op.multiply(node[0], op.tanh(softplus_of(node, node[0])))


def swish(node: Node) -> Expr:
    """Return x * sigmoid(alpha * x)."""
    return op.multiply(node[0], op.sigmoid(scaled(node, node[0], node.number("alpha", 1.0))))


def shrink(node: Node) -> Expr:
    """Return the elements moved towards 0 by a bias, and 0 for elements near 0."""
    data = node[0]
    limit, bias, zero = node.number("lambd", 0.5), node.constant(node.number("bias", 0.0), data), node.constant(0, data)
    above = op.where(op.greater(data, node.constant(limit, data)), op.subtract(data, bias), zero)
    return op.where(op.less(data, node.constant(-limit, data)), op.add(data, bias), above)


def thresholded_relu(node: Node) -> Expr:
    """Return the elements above a threshold, and 0 for the others."""
    data = node[0]
    is_above = op.greater(data, node.constant(node.number("alpha", 1.0), data))
    return op.where(is_above, data, node.constant(0, data))


def softmax(node: Node) -> Expr:
    """Return the softmax along one axis."""
    data, axis = node[0], node.axis(node[0], -1)
    # Relay's softmax sums 16-bit numbers in 32 bits; ONNX specifies every step in the type of the data.
    is_half = node.dtype(data) in ("float16", "bfloat16")
    return softmax_over(data, (axis,)) if is_half else nn.softmax(data, axis=axis)


def log_softmax(node: Node) -> Expr:
    """Return the logarithm of `softmax`."""
    return nn.log_softmax(node[0], axis=node.axis(node[0], -1))


def softmax_from_axis(node: Node) -> Expr:
    """Return the softmax over an axis and all later ones, as before version 13."""
    data, axis = node[0], node.axis(node[0], 1)
    axes = tuple(range(axis, node.rank(data)))
    return nn.softmax(data, axis=axis) if len(axes) == 1 else softmax_over(data, axes)


def softmax_over(data: Expr, axes: tuple[int, ...]) -> Expr:
    """Return the softmax over several axes."""
    # Subtracting the maximum avoids overflow.
    powers = op.exp(op.subtract(data, op.max(data, axis=axes, keepdims=True)))
    return op.divide(powers, op.sum(powers, axis=axes, keepdims=True))


def log_softmax_from_axis(node: Node) -> Expr:
    """Return the logarithm of `softmax_from_axis`, as before version 13."""
    data, axis = node[0], node.axis(node[0], 1)
    if axis == node.rank(data) - 1:
        return nn.log_softmax(data, axis=axis)
    axes = tuple(range(axis, node.rank(data)))
    lower = op.subtract(data, op.max(data, axis=axes, keepdims=True))
    return op.subtract(lower, op.log(op.sum(op.exp(lower), axis=axes, keepdims=True)))


def hardmax(node: Node) -> Expr:
    """Return 1 at the first maximum along an axis, and 0 elsewhere."""
    return hardmax_along(node, node[0], node.axis(node[0], -1))


def hardmax_from_axis(node: Node) -> Expr:
    """Return the hardmax over an axis and all later ones, as before version 13."""
    data, axis = node[0], node.axis(node[0], 1)
    if axis == node.rank(data) - 1:
        return hardmax_along(node, data, axis)
    shape = node.static_shape(data)
    rows = op.reshape(data, (int(np.prod(shape[:axis])), -1))
    return op.reshape(hardmax_along(node, rows, 1), shape)


def hardmax_along(node: Node, data: Expr, axis: int) -> Expr:
    """Return 1 at the first maximum along the given axis, and 0 elsewhere."""
    first = op.argmax(data, axis=axis, keepdims=True)
    indices = np.arange(node.static_dim(data, axis)).reshape([-1] + [1] * (node.rank(data) - axis - 1))
    return op.cast(op.equal(node.constant(indices, first), first), node.dtype(data))


TABLE: Final[Table] = {
    ("", "Celu", 12): celu,
    ("", "Elu", 1): elu,
    ("", "Gelu", 20): gelu,
    ("", "HardSigmoid", 1): hard_sigmoid,
    ("", "HardSwish", 14): hard_swish,
    ("", "Hardmax", 1): hardmax_from_axis,
    ("", "Hardmax", 13): hardmax,
    ("", "LeakyRelu", 1): leaky_relu,
    ("", "LogSoftmax", 1): log_softmax_from_axis,
    ("", "LogSoftmax", 13): log_softmax,
    ("", "Mish", 18): mish,
    ("", "PRelu", 1): prelu,
    ("", "Relu", 1): unary(nn.relu),
    ("", "Selu", 1): selu,
    ("", "Shrink", 9): shrink,
    ("", "Softmax", 1): softmax_from_axis,
    ("", "Softmax", 13): softmax,
    ("", "Softplus", 1): softplus,
    ("", "Softsign", 1): softsign,
    ("", "Swish", 24): swish,
    ("", "ThresholdedRelu", 10): thresholded_relu,
}
"""The converters of this module."""
