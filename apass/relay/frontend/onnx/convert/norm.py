"""Normalizations and dropout."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.frontend.onnx.protos import dtype_of
from apass.relay.ir.expr import Constant, Expr
from apass.relay.op import nn

__all__ = ["TABLE"]


def batch_norm(node: Node) -> Sequence[Expr]:
    """Return normalized data; in training mode, also the updated running statistics."""
    if node.version < 14 and node.is_used(1):
        raise node.unsupported("the outputs of training mode are not supported")
    if node.version < 9 and not node.integer("spatial", 1):
        return [_by_feature(node)]
    if node.version >= 14 and node.integer("training_mode", 0):
        return _training(node)
    data, scale, bias, mean, variance = (node[index] for index in range(5))
    dtype = node.dtype(mean)
    wide, factor, shift = (as_dtype(node, operand, dtype) for operand in (data, scale, bias))
    normal = nn.batch_norm(wide, factor, shift, mean, variance, axis=1, epsilon=node.number("epsilon", 1e-5))[0]
    return [as_dtype(node, normal, node.dtype(data))]


def _by_feature(node: Node) -> Expr:
    """Return data normalized by separate statistics for each element of a sample."""
    data, scale, bias, mean, variance = (node[index] for index in range(5))
    deviation = op.sqrt(op.add(variance, node.constant(node.number("epsilon", 1e-5), variance)))
    return op.add(op.multiply(op.divide(op.subtract(data, mean), deviation), scale), bias)


def _training(node: Node) -> Sequence[Expr]:
    data, scale, bias, mean, variance = (node[index] for index in range(5))
    dtype = node.dtype(mean)
    wide = as_dtype(node, data, dtype)
    axes = tuple(axis for axis in range(node.rank(data)) if axis != 1)
    batch_mean = op.mean(wide, axis=axes)
    centred = op.subtract(wide, op.mean(wide, axis=axes, keepdims=True))
    batch_variance = op.mean(op.multiply(centred, centred), axis=axes)
    factor, shift = (as_dtype(node, operand, dtype) for operand in (scale, bias))
    epsilon = node.number("epsilon", 1e-5)
    normal = nn.batch_norm(wide, factor, shift, batch_mean, batch_variance, axis=1, epsilon=epsilon)[0]
    momentum = node.number("momentum", 0.9)
    # 1 - momentum is computed in 32 bits, the type of the attribute.
    old, new = node.constant(momentum, mean), node.constant(np.float32(1) - np.float32(momentum), mean)
    running = [
        op.add(op.multiply(before, old), op.multiply(batch, new))
        for before, batch in ((mean, batch_mean), (variance, batch_variance))
    ]
    return [as_dtype(node, normal, node.dtype(data)), *running]


def instance_norm(node: Node) -> Expr:
    """Return data normalized by mean and variance of each channel and sample."""
    return nn.instance_norm(node[0], node[1], node[2], axis=1, epsilon=node.number("epsilon", 1e-5))


def layer_norm(node: Node) -> Sequence[Expr]:
    """Return normalized data, the mean, and the inverse standard deviation.

    The statistics are over an axis and all later ones.
    """
    data, scale, bias = node[0], node[1], node.get(2)
    axis, rank, epsilon = node.axis(data, -1), node.rank(data), node.number("epsilon", 1e-5)
    stash = dtype_of(node.integer("stash_type", 1))
    is_plain = axis == rank - 1 and node.rank(scale) == 1 and node.shape(scale) == node.shape(data)[-1:]
    is_alone = node.dtype(data) == stash and not node.is_used(1) and not node.is_used(2)
    if is_plain and is_alone and bias is not None and node.shape(bias) == node.shape(scale):
        return [nn.layer_norm(data, scale, bias, axis=-1, epsilon=epsilon)]
    axes = tuple(range(axis, rank))
    wide = as_dtype(node, data, stash)
    mean = op.mean(wide, axis=axes, keepdims=True)
    centred = op.subtract(wide, mean)
    variance = op.mean(op.multiply(centred, centred), axis=axes, keepdims=True)
    inverse = op.divide(node.constant(1, wide), op.sqrt(op.add(variance, node.constant(epsilon, wide))))
    normal = op.multiply(as_dtype(node, op.multiply(centred, inverse), node.dtype(data)), scale)
    return [normal if bias is None else op.add(normal, bias), mean, inverse]


def group_norm(node: Node) -> Expr:
    """Return data normalized by mean and variance of each channel group and sample."""
    data, scale, bias = node[0], node[1], node[2]
    stash = dtype_of(node.integer("stash_type", 1))
    groups, epsilon = node.integer("num_groups"), node.number("epsilon", 1e-5)
    if node.dtype(data) == stash:
        return nn.group_norm(data, scale, bias, groups, axis=1, epsilon=epsilon)
    channels = node.static_dim(data, 1)
    one, zero = (Constant(np.full(channels, value, stash)) for value in (1, 0))
    normal = op.cast(nn.group_norm(op.cast(data, stash), one, zero, groups, axis=1, epsilon=epsilon), node.dtype(data))
    inner_rank = node.rank(data) - 2
    factor, shift = (
        op.expand_dims(part, axis=1, num_newaxis=inner_rank) if inner_rank else part for part in (scale, bias)
    )
    return op.add(op.multiply(normal, factor), shift)


def lp_normalization(node: Node) -> Expr:
    """Return the data divided by its p-norm along an axis, or 0 if the norm is 0."""
    data, zero = node[0], node.constant(0, node[0])
    axes = (node.axis(data, -1),)
    if node.integer("p", 2) == 1:
        norm = op.sum(op.abs(data), axis=axes, keepdims=True)
    else:
        norm = op.sqrt(op.sum(op.multiply(data, data), axis=axes, keepdims=True))
    is_zero = op.equal(norm, zero)
    return op.where(is_zero, zero, op.divide(data, op.where(is_zero, node.constant(1, norm), norm)))


def mean_variance(node: Node) -> Expr:
    """Return data minus its mean, divided by its standard deviation, along axes."""
    data = node[0]
    axes = node.integers("axes") or (0, 2, 3)
    centred = op.subtract(data, op.mean(data, axis=axes, keepdims=True))
    variance = op.mean(op.multiply(centred, centred), axis=axes, keepdims=True)
    return op.divide(centred, op.add(op.sqrt(variance), node.constant(1e-9, data)))


def local_response(node: Node) -> Expr:
    """Return data divided by a power of the sum of squares of nearby channels."""
    data, size = node[0], node.integer("size")
    alpha, beta = node.number("alpha", 1e-4), node.number("beta", 0.75)
    bias = node.number("bias", 1.0)
    if size % 2:
        return nn.lrn(data, size=size, axis=1, bias=bias, alpha=alpha, beta=beta)
    # With an even size, the longer side of the window is after the element in ONNX, and before it in Relay.
    return op.reverse(nn.lrn(op.reverse(data, 1), size=size, axis=1, bias=bias, alpha=alpha, beta=beta), 1)


def dropout(node: Node) -> Sequence[Expr]:
    """Return the data and a mask of ones; random dropout is not supported."""
    data = node[0]
    is_training = node.value(2) if node.version >= 12 else None
    if is_training is not None and is_training.any() and node.scalar(1, 0.5) != 0:
        raise node.unsupported("random dropout (training mode) is not supported")
    if not node.is_used(1):
        return [data]
    dtype = "bool" if node.version >= 10 else node.dtype(data)
    return [data, op.full(Constant(np.ones((), dtype)), node.static_shape(data), dtype)]


TABLE: Final[Table] = {
    ("", "BatchNormalization", 1): batch_norm,
    ("", "Dropout", 1): dropout,
    ("", "GroupNormalization", 21): group_norm,
    ("", "InstanceNormalization", 1): instance_norm,
    ("", "LRN", 1): local_response,
    ("", "LayerNormalization", 17): layer_norm,
    ("", "LpNormalization", 1): lp_normalization,
    ("", "MeanVarianceNormalization", 9): mean_variance,
}
"""The converters of this module."""
