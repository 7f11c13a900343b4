"""Gradients of the operators of neural networks, except those with windows."""

from collections.abc import Sequence

import numpy as np

from apass.relay.ir.calls import along_axis, attrs_of, call_op, scalar_like, tensor_type
from apass.relay.ir.expr import Call, Expr, const
from apass.relay.op.define.dims import axis_of
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.arithmetic import maximum, power
from apass.relay.op.elementwise.compare import greater, less, not_equal
from apass.relay.op.elementwise.convert import cast_like, ones_like, zeros_like
from apass.relay.op.elementwise.logical import logical_and
from apass.relay.op.elementwise.math import exp, log, rsqrt, sqrt
from apass.relay.op.gradients.support import in_dtype, multiply_axis, rank_of, scaled, static_shape
from apass.relay.op.index.gather import where
from apass.relay.op.index.scatter import one_hot
from apass.relay.op.nn.activation import LeakyReluAttrs, PReluAttrs
from apass.relay.op.nn.dense.bias import BiasAddAttrs
from apass.relay.op.nn.dense.dense import BatchMatmulAttrs, MatmulAttrs, batch_matmul, dense, matmul
from apass.relay.op.nn.dense.pack import DensePackAttrs
from apass.relay.op.nn.loss import NLLLossAttrs
from apass.relay.op.nn.norm.batch_norm import BatchNormAttrs
from apass.relay.op.nn.norm.norm import GroupNormAttrs, InstanceNormAttrs, LayerNormAttrs
from apass.relay.op.nn.norm.scale import L2NormalizeAttrs, LRNAttrs
from apass.relay.op.nn.softmax import SoftmaxAttrs
from apass.relay.op.reduce import mean as mean_of
from apass.relay.op.reduce import sum as sum_of
from apass.relay.op.shape.axes import expand_dims, layout_transform, transpose
from apass.relay.op.shape.broadcast import collapse_sum_like
from apass.relay.op.shape.reshape import reshape, reshape_like

__all__: list[str] = []


def _channel_sum(expr: Expr, axis: int) -> Expr:
    """Return the sum over all axes but one."""
    return sum_of(expr, axis, exclude=True)


@register_gradient("nn.relu")
def _relu(orig: Call, grad: Expr) -> Sequence[Expr]:
    x = orig.args[0]
    return [where(less(x, zeros_like(x)), zeros_like(x), ones_like(x) * grad)]


@register_gradient("nn.leaky_relu")
def _leaky_relu(orig: Call, grad: Expr) -> Sequence[Expr]:
    x = orig.args[0]
    return [where(greater(x, zeros_like(x)), grad, scaled(grad, attrs_of(orig, LeakyReluAttrs).alpha, x))]


@register_gradient("nn.prelu")
def _prelu(orig: Call, grad: Expr) -> Sequence[Expr]:
    x, alpha = orig.args
    axis, zero = attrs_of(orig, PReluAttrs).axis, zeros_like(x)
    is_positive = greater(x, zero)
    slope = where(is_positive, grad, grad * along_axis(alpha, axis, rank_of(x)))
    return [slope, _channel_sum(where(is_positive, zero, grad * x), axis)]


def _softmax(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [(grad - sum_of(grad * orig, attrs_of(orig, SoftmaxAttrs).axis, True)) * orig]


register_gradient("nn.softmax", _softmax)
register_gradient("nn.fast_softmax", _softmax)


@register_gradient("nn.log_softmax")
def _log_softmax(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [grad - sum_of(grad, attrs_of(orig, SoftmaxAttrs).axis, True) * exp(orig)]


@register_gradient("nn.bias_add")
def _bias_add(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [collapse_sum_like(grad, orig.args[0]), _channel_sum(grad, attrs_of(orig, BiasAddAttrs).axis)]


def _as_matrix(expr: Expr, rank: int) -> Expr:
    """Return a tensor with all dimensions but the last joined."""
    return expr if rank == 2 else call_op("contrib_reverse_reshape", expr, newshape=(-1, 0))


@register_gradient("nn.dense")
def _dense(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, weight = orig.args
    rank, part = rank_of(data), in_dtype(grad, orig)
    slope = dense(part, transpose(weight))
    rows, columns = _as_matrix(part, rank), _as_matrix(data, rank)
    return [collapse_sum_like(slope, data), collapse_sum_like(dense(transpose(rows), transpose(columns)), weight)]


@register_gradient("nn.contrib_dense_pack")
def _dense_pack(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, weight = orig.args
    layout, part = attrs_of(orig, DensePackAttrs).weight_layout, in_dtype(grad, orig)
    slope = dense(part, transpose(layout_transform(weight, layout, "NC")))
    return [slope, layout_transform(dense(transpose(part), transpose(data)), "NC", layout)]


@register_gradient("nn.matmul")
def _matmul(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, MatmulAttrs)
    a, b = orig.args
    rank, part = rank_of(a), in_dtype(grad, orig)
    if rank != 2 and attrs.transpose_a:
        raise ValueError(f"the gradient of nn.matmul with transpose_a requires a matrix, got {a.checked_type}")
    if not attrs.transpose_a:
        rows, left = _as_matrix(part, rank), _as_matrix(a, rank)
        slope = matmul(part, b, transpose_b=not attrs.transpose_b)
        other = matmul(rows, left, transpose_a=True) if attrs.transpose_b else matmul(left, rows, transpose_a=True)
        return [slope, other]
    slope = matmul(b, part, transpose_a=attrs.transpose_b, transpose_b=True)
    other = matmul(part, a, transpose_a=True, transpose_b=True) if attrs.transpose_b else matmul(a, part)
    return [slope, other]


@register_gradient("nn.batch_matmul")
def _batch_matmul(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, BatchMatmulAttrs)
    a, b = orig.args
    part = in_dtype(grad, orig)
    by_a, by_b = attrs.transpose_a, attrs.transpose_b
    if by_a:
        slope = batch_matmul(b, part, transpose_a=by_b, transpose_b=True)
    else:
        slope = batch_matmul(part, b, transpose_a=False, transpose_b=not by_b)
    if by_b:
        other = batch_matmul(part, a, transpose_a=True, transpose_b=by_a)
    else:
        other = batch_matmul(a, part, transpose_a=not by_a, transpose_b=False)
    return [collapse_sum_like(slope, a), collapse_sum_like(other, b)]


def _per_sample(grad: Expr, predictions: Expr) -> Expr:
    """Return the gradient of a mean over the batch, divided by the size of the batch."""
    batch = tensor_type(predictions).shape[0]
    if isinstance(batch, int):
        return grad / scalar_like(batch, predictions)
    size = call_op("take", call_op("shape_of", predictions, dtype="int32"), const(0), axis=0)
    return grad / cast_like(size, predictions)


@register_gradient("nn.cross_entropy")
def _cross_entropy(orig: Call, grad: Expr) -> Sequence[Expr]:
    x, y = orig.args
    part = _per_sample(grad, x)
    return [-part * y / x, -part * log(x)]


@register_gradient("nn.cross_entropy_with_logits")
def _cross_entropy_with_logits(orig: Call, grad: Expr) -> Sequence[Expr]:
    x, y = orig.args
    part = _per_sample(grad, x)
    return [-part * y, -part * x]


@register_gradient("nn.nll_loss")
def _nll_loss(orig: Call, grad: Expr) -> Sequence[Expr]:
    predictions, targets, weights = orig.args
    attrs, rank = attrs_of(orig, NLLLossAttrs), rank_of(predictions)
    classes = static_shape("nn.nll_loss", weights)[0]
    ignored = const(attrs.ignore_index, tensor_type(targets).dtype)
    hot = one_hot(targets, const(True), const(False), classes, 1, "bool")
    chosen = cast_like(logical_and(hot, expand_dims(not_equal(targets, ignored), 1)), predictions)
    factors = chosen * along_axis(weights, 1, rank)
    part = expand_dims(grad, 1) if attrs.reduction == "none" else grad
    if attrs.reduction != "mean":
        return [-part * factors, zeros_like(targets), _channel_sum(-part * chosen * predictions, 1)]
    share = grad / sum_of(factors)
    # The weights are also in the divisor of the mean.
    slope = -share * _channel_sum(chosen * predictions, 1) - share * orig * _channel_sum(chosen, 1)
    return [-share * factors, zeros_like(targets), slope]


@register_gradient("nn.dropout")
def _dropout(orig: Call, grad: Expr) -> Sequence[Expr]:
    # At inference, the result is the data, and the mask is constant.
    return [grad[0]]


def _affine(
    orig: Call, grad: Expr, attrs: LayerNormAttrs | InstanceNormAttrs | GroupNormAttrs, normal: Expr, slope: Expr
) -> Sequence[Expr]:
    """Return the gradients of a normalization.

    `normal` is the normalized data, and `slope` the gradient of the data.
    """
    _, gamma, beta = orig.args
    return [
        slope,
        _channel_sum(grad * normal, attrs.axis) if attrs.scale else zeros_like(gamma),
        _channel_sum(grad, attrs.axis) if attrs.center else zeros_like(beta),
    ]


def _scaled_grad(orig: Call, grad: Expr, attrs: LayerNormAttrs | InstanceNormAttrs | GroupNormAttrs) -> Expr:
    data, gamma, _ = orig.args
    return grad * along_axis(gamma, attrs.axis, rank_of(data)) if attrs.scale else grad


def _normalized(data: Expr, grad: Expr, axes: Sequence[int], epsilon: float, like: Expr) -> tuple[Expr, Expr]:
    """Return the data normalized over axes, and the gradient of the data."""
    if not axes:
        return zeros_like(data), zeros_like(data)
    centred = data - mean_of(data, axes, True)
    scale = rsqrt(mean_of(centred * centred, axes, True) + scalar_like(epsilon, like))
    normal = centred * scale
    slope = scale * (grad - mean_of(grad, axes, True) - normal * mean_of(grad * normal, axes, True))
    return normal, slope


@register_gradient("nn.layer_norm")
def _layer_norm(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs, data = attrs_of(orig, LayerNormAttrs), orig.args[0]
    normal, slope = _normalized(data, _scaled_grad(orig, grad, attrs), [attrs.axis], attrs.epsilon, data)
    return _affine(orig, grad, attrs, normal, slope)


@register_gradient("nn.instance_norm")
def _instance_norm(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs, data = attrs_of(orig, InstanceNormAttrs), orig.args[0]
    rank = rank_of(data)
    axes = [axis for axis in range(1, rank) if axis != axis_of(rank, attrs.axis)]
    normal, slope = _normalized(data, _scaled_grad(orig, grad, attrs), axes, attrs.epsilon, data)
    return _affine(orig, grad, attrs, normal, slope)


@register_gradient("nn.group_norm")
def _group_norm(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs, data = attrs_of(orig, GroupNormAttrs), orig.args[0]
    rank = rank_of(data)
    axis = axis_of(rank, attrs.axis)
    codes = (*(0 for _ in range(axis)), -4, attrs.num_groups, -1, -2)
    grouped, grouped_grad = reshape(data, codes), reshape(_scaled_grad(orig, grad, attrs), codes)
    normal, slope = _normalized(grouped, grouped_grad, range(axis + 1, rank + 1), attrs.epsilon, data)
    return _affine(orig, grad, attrs, reshape_like(normal, data), reshape_like(slope, data))


@register_gradient("nn.batch_norm")
def _batch_norm(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, gamma, beta, mean, variance = orig.args
    attrs = attrs_of(orig, BatchNormAttrs)
    rank, axis, part = rank_of(data), attrs.axis, grad[0]
    scale = rsqrt(variance + scalar_like(attrs.epsilon, data))
    factor = gamma * scale if attrs.scale else scale
    total, weighted = _channel_sum(part, axis), _channel_sum(part * (data - along_axis(mean, axis, rank)), axis)
    return [
        part * along_axis(factor, axis, rank),
        weighted * scale if attrs.scale else zeros_like(gamma),
        total if attrs.center else zeros_like(beta),
        grad[1] - factor * total,
        grad[2] - scaled(factor * scale * scale * weighted, 0.5, data),
    ]


@register_gradient("nn.l2_normalize")
def _l2_normalize(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, L2NormalizeAttrs)
    total = sum_of(data * data, attrs.axis, True)
    bound = scalar_like(attrs.eps, data)
    along = orig * sum_of(grad * orig, attrs.axis, True)
    # Below the bound, the divisor is constant.
    return [(grad - where(greater(total, bound), along, zeros_like(data))) / sqrt(maximum(total, bound))]


@register_gradient("nn.lrn")
def _lrn(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, LRNAttrs)
    rank, dtype = rank_of(data), tensor_type(data).dtype
    axis = axis_of(rank, attrs.axis)
    positions = np.arange(static_shape("nn.lrn", data)[axis])
    before = positions[:, None] - positions[None]
    band = ((before <= attrs.size // 2) & (before > attrs.size // 2 - attrs.size)).astype("float64")
    share = attrs.alpha / attrs.size
    scale = scaled(multiply_axis(data * data, axis, rank, band, dtype), share, data) + scalar_like(attrs.bias, data)
    inner = multiply_axis(grad * data * power(scale, scalar_like(-attrs.beta - 1, data)), axis, rank, band.T, dtype)
    return [grad * power(scale, scalar_like(-attrs.beta, data)) - scaled(data * inner, 2 * share * attrs.beta, data)]
