"""Layers of networks: activations, normalization, padding, losses."""

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from apass.relay.backend.onnx.convert.conv import from_plain, to_plain
from apass.relay.backend.onnx.convert.matmul import along
from apass.relay.backend.onnx.graph import INT64_MAX, Tensor
from apass.relay.backend.onnx.site import Converter, Site, Table
from apass.relay.op.nn.activation import LeakyReluAttrs, PReluAttrs
from apass.relay.op.nn.fifo_buffer import FIFOBufferAttrs
from apass.relay.op.nn.loss import NLLLossAttrs
from apass.relay.op.nn.norm.batch_norm import BatchNormAttrs
from apass.relay.op.nn.norm.norm import GroupNormAttrs, InstanceNormAttrs, LayerNormAttrs, NormAttrs
from apass.relay.op.nn.norm.scale import L2NormalizeAttrs, LRNAttrs
from apass.relay.op.nn.pad import MirrorPadAttrs, PadAttrs
from apass.relay.op.nn.softmax import SoftmaxAttrs
from apass.relay.op.nn.space.batch import BatchToSpaceNDAttrs, DilateAttrs, SpaceToBatchNDAttrs
from apass.relay.op.nn.space.depth import SubPixelAttrs

__all__ = ["TABLE"]


def relu(site: Site) -> Tensor:
    """Return the data with negative elements replaced by 0."""
    if site.is_float():
        return site.builder.emit("Relu", site[0])
    return site.builder.extreme("Max", site[0], site.like(0))


def leaky_relu(site: Site) -> Tensor:
    """Return the data with negative elements multiplied by a number."""
    return site.builder.emit("LeakyRelu", site[0], alpha=site.attrs(LeakyReluAttrs).alpha)


def prelu(site: Site) -> Tensor:
    """Return the data with negative elements multiplied by the slope of their channel."""
    return site.builder.emit("PRelu", site[0], along(site, site[1], site.attrs(PReluAttrs).axis))


def softmax(op_type: str) -> Converter:
    """Return the converter of softmax and its logarithm."""

    def convert(site: Site) -> Tensor:
        builder, rank = site.builder, site.rank()
        axis = site.axis(site.attrs(SoftmaxAttrs).axis)
        if builder.opset >= 13 or axis == rank - 1:
            return builder.emit(op_type, site[0], axis=axis)
        # Before version 13, all axes from the given one on are normalized together.
        order = [*(other for other in range(rank) if other != axis), axis]
        moved = builder.emit(op_type, builder.transpose(site[0], order), axis=rank - 1)
        return builder.transpose(moved, [order.index(other) for other in range(rank)])

    return convert


def batch_norm(site: Site) -> list[Tensor]:
    """Return the normalized data, and the mean and variance that are given."""
    attrs, builder = site.attrs(BatchNormAttrs), site.builder
    axis, rank = site.axis(attrs.axis), site.rank()
    gamma, beta = _affine(site, attrs.scale, attrs.center)
    order = list(range(rank))
    if axis != 1:
        order.remove(axis)
        order.insert(1, axis)
    back = [order.index(other) for other in range(rank)]
    data = builder.transpose(site[0], order) if rank > 1 else builder.unsqueeze(site[0], [0])
    normal = builder.emit("BatchNormalization", data, gamma, beta, site[3], site[4], epsilon=attrs.epsilon)
    normal = builder.transpose(normal, back) if rank > 1 else builder.squeeze(normal, [0])
    return [normal, site[3], site[4]]


def _affine(site: Site, has_scale: bool, has_center: bool) -> tuple[Tensor, Tensor]:
    """Return the factors and the terms of channels, ones and zeros if disabled."""
    size = site.shape(1)
    factor = site[1] if has_scale else site.like(np.ones(site.static_dims(size)))
    return factor, site[2] if has_center else site.like(np.zeros(site.static_dims(size)))


def _normalized(site: Site, data: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    """Return a tensor minus its mean, divided by its standard deviation."""
    builder = site.builder
    centred = builder.emit("Sub", data, builder.reduce("ReduceMean", data, axes, keepdims=True))
    variance = builder.reduce("ReduceMean", builder.emit("Mul", centred, centred), axes, keepdims=True)
    deviation = builder.emit("Sqrt", builder.emit("Add", variance, site.like(epsilon)))
    return builder.emit("Div", centred, deviation)


def _scaled(site: Site, normal: Tensor, attrs: NormAttrs | GroupNormAttrs) -> Tensor:
    for enabled, op_type, index in ((attrs.scale, "Mul", 1), (attrs.center, "Add", 2)):
        if enabled:
            normal = site.builder.emit(op_type, normal, along(site, site[index], attrs.axis))
    return normal


def instance_norm(site: Site) -> Tensor:
    """Return the data with each channel of each sample normalized."""
    attrs = site.attrs(InstanceNormAttrs)
    axis = site.axis(attrs.axis)
    if axis == 1 and site.rank() > 2:
        factor, term = _affine(site, attrs.scale, attrs.center)
        return site.builder.emit("InstanceNormalization", site[0], factor, term, epsilon=attrs.epsilon)
    axes = [other for other in range(1, site.rank()) if other != axis]
    return _scaled(site, _normalized(site, site[0], axes, attrs.epsilon), attrs)


def layer_norm(site: Site) -> Tensor:
    """Return the data normalized along an axis."""
    attrs = site.attrs(LayerNormAttrs)
    axis = site.axis(attrs.axis)
    if axis == site.rank() - 1 and site.builder.opset >= 17:
        factor, term = _affine(site, attrs.scale, attrs.center)
        return site.builder.emit("LayerNormalization", site[0], factor, term, axis=axis, epsilon=attrs.epsilon)
    return _scaled(site, _normalized(site, site[0], [axis], attrs.epsilon), attrs)


def group_norm(site: Site) -> Tensor:
    """Return the data with each group of channels normalized."""
    attrs, shape = site.attrs(GroupNormAttrs), site.static_shape()
    axis, builder = site.axis(attrs.axis), site.builder
    groups = [attrs.num_groups, shape[axis] // attrs.num_groups]
    grouped = builder.reshape(site[0], [*shape[:axis], *groups, *shape[axis + 1 :]])
    normal = _normalized(site, grouped, range(axis + 1, len(shape) + 1), attrs.epsilon)
    return _scaled(site, builder.reshape(normal, shape), attrs)


def lrn(site: Site) -> Tensor:
    """Return the local response normalization along an axis."""
    attrs, builder = site.attrs(LRNAttrs), site.builder
    order = list(range(site.rank()))
    axis = site.axis(attrs.axis)
    if attrs.size % 2 == 0:
        return _lrn_of_even_size(site, attrs, axis)
    order[1], order[axis] = order[axis], order[1]
    moved = builder.transpose(site[0], order)
    result = builder.emit("LRN", moved, size=attrs.size, alpha=attrs.alpha, beta=attrs.beta, bias=attrs.bias)
    # The exchange of two axes is its own inverse.
    return builder.transpose(result, order)


def _lrn_of_even_size(site: Site, attrs: LRNAttrs, axis: int) -> Tensor:
    # onnxruntime has no LRN of even size, and the longer side of ONNX's window is the other one.
    builder, rank = site.builder, site.rank()
    order = [*(other for other in range(rank) if other != axis), axis]
    added = list(range(max(3 - rank, 0)))
    squares = builder.unsqueeze(builder.transpose(builder.emit("Mul", site[0], site[0]), order), added)
    others = [0] * (rank + len(added) - 3)
    pads = [*others, attrs.size // 2, *others, (attrs.size - 1) // 2]
    kernel = [*(1 for _ in others), attrs.size]
    mean = builder.emit("AveragePool", squares, kernel_shape=kernel, pads=pads, count_include_pad=1)
    back = builder.transpose(builder.squeeze(mean, added), [order.index(other) for other in range(rank)])
    base = builder.emit("Add", builder.emit("Mul", back, site.like(attrs.alpha)), site.like(attrs.bias))
    return builder.emit("Div", site[0], builder.emit("Pow", base, site.like(attrs.beta)))


def l2_normalize(site: Site) -> Tensor:
    """Return the data divided by its norm along axes."""
    attrs, builder = site.attrs(L2NormalizeAttrs), site.builder
    axes = sorted(site.axis(axis) for axis in attrs.axis or range(site.rank()))
    total = builder.reduce("ReduceSum", builder.emit("Mul", site[0], site[0]), axes, keepdims=True)
    return builder.emit("Div", site[0], builder.emit("Sqrt", builder.extreme("Max", total, site.like(attrs.eps))))


def pad(site: Site) -> Tensor:
    """Return the data with elements added or removed before and after each axis."""
    attrs, builder = site.attrs(PadAttrs), site.builder
    width = [(pair[0], pair[1]) for pair in attrs.pad_width]
    added = [max(low, 0) for low, _ in width] + [max(high, 0) for _, high in width]
    value = builder.cast(site[1], site.type().dtype) if attrs.pad_mode == "constant" else None
    result = builder.pad(site[0], added, value, attrs.pad_mode)
    removed = [axis for axis, pair in enumerate(width) if min(pair) < 0]
    starts = [max(-width[axis][0], 0) for axis in removed]
    ends = [width[axis][1] if width[axis][1] < 0 else INT64_MAX for axis in removed]
    return builder.slice(result, starts, ends, removed)


def dyn_pad(site: Site) -> Tensor:
    """Return `pad` with computed numbers of elements."""
    mode, builder = site.attrs(PadAttrs).pad_mode, site.builder
    pads = builder.reshape(builder.transpose(builder.cast(site[1], "int64"), [1, 0]), [-1])
    value = builder.cast(site[2], site.type().dtype) if mode == "constant" else None
    return builder.emit("Pad", site[0], pads, value, mode=mode)


def mirror_pad(site: Site) -> Tensor:
    """Return the data with its mirror image before and after each axis."""
    attrs, builder, result = site.attrs(MirrorPadAttrs), site.builder, site[0]
    for axis, (low, high) in enumerate(attrs.pad_width):
        if low or high:
            positions = np.arange(site.static_dims([site.shape()[axis]])[0])
            mirrored = np.pad(positions, (low, high), mode="symmetric" if attrs.mode == "SYMMETRIC" else "reflect")
            result = builder.gather(result, builder.ints(mirrored.tolist()), axis)
    return result


def dropout(site: Site) -> list[Tensor]:
    """Return the data, and a mask of ones."""
    builder = site.builder
    return [site[0], builder.emit("Expand", site.like(1), builder.joined(site.dims()))]


def depth_to_space(site: Site) -> Tensor:
    """Return channels as blocks of elements."""
    attrs = site.attrs(SubPixelAttrs)
    data, _ = to_plain(site, 0, attrs.layout, 2)
    mode = None if attrs.mode == "DCR" else "CRD"
    blocks = site.builder.emit("DepthToSpace", data, blocksize=attrs.block_size, mode=mode)
    return from_plain(site, blocks, attrs.layout, 2)


def space_to_depth(site: Site) -> Tensor:
    """Return blocks of elements as channels."""
    attrs = site.attrs(SubPixelAttrs)
    data, _ = to_plain(site, 0, attrs.layout, 2)
    return from_plain(site, site.builder.emit("SpaceToDepth", data, blocksize=attrs.block_size), attrs.layout, 2)


def space_to_batch(site: Site) -> Tensor:
    """Return the padded data with the elements of each block as samples."""
    attrs, builder, shape = site.attrs(SpaceToBatchNDAttrs), site.builder, site.static_shape()
    block, rank = attrs.block_shape, len(attrs.block_shape)
    rest = len(shape) - rank - 1
    sides = [(0, 0), *((pair[0], pair[1]) for pair in attrs.paddings), *[(0, 0)] * rest]
    pads = [low for low, _ in sides] + [high for _, high in sides]
    padded = builder.pad(site[0], pads, site.like(attrs.pad_value))
    dims = [dim + sum(pair) for dim, pair in zip(shape, sides, strict=True)]
    blocks = [part for dim, size in zip(dims[1:], block, strict=False) for part in (dim // size, size)]
    parts = builder.reshape(padded, [dims[0], *blocks, *dims[rank + 1 :]])
    order = [*range(2, 2 * rank + 1, 2), 0, *range(1, 2 * rank, 2), *range(2 * rank + 1, 2 * rank + 1 + rest)]
    return builder.reshape(builder.transpose(parts, order), site.static_dims(site.result.shape))


def batch_to_space(site: Site) -> Tensor:
    """Return samples of the batch as elements of blocks, cropped."""
    attrs, builder, shape = site.attrs(BatchToSpaceNDAttrs), site.builder, site.static_shape()
    block, rank = attrs.block_shape, len(attrs.block_shape)
    batch = shape[0] // prod(block)
    parts = builder.reshape(site[0], [*block, batch, *shape[1:]])
    pairs = [axis for pair in zip(range(rank + 1, 2 * rank + 1), range(rank), strict=True) for axis in pair]
    order = [rank, *pairs, *range(2 * rank + 1, len(shape) + rank)]
    spread = [dim * size for dim, size in zip(shape[1:], block, strict=False)]
    whole = builder.reshape(builder.transpose(parts, order), [batch, *spread, *shape[rank + 1 :]])
    starts = [pair[0] for pair in attrs.crops]
    ends = [dim - pair[1] for dim, pair in zip(spread, attrs.crops, strict=True)]
    return builder.slice(whole, starts, ends, range(1, rank + 1))


def dilate(site: Site) -> Tensor:
    """Return the data with a value between neighbours."""
    attrs, builder, shape = site.attrs(DilateAttrs), site.builder, site.static_shape()
    result, value = site[0], site.like(attrs.dilation_value)
    for axis, (dim, stride) in enumerate(zip(shape, attrs.strides, strict=True)):
        if stride > 1:
            rank = len(shape) + 1
            spread = builder.unsqueeze(result, [axis + 1])
            pads = [0] * 2 * rank
            pads[rank + axis + 1] = stride - 1
            dims: list[int] = [0] * len(shape)
            dims[axis] = dim * stride
            joined = builder.reshape(builder.pad(spread, pads, value), _dims_before(shape, attrs.strides, axis))
            result = builder.slice(joined, [0], [(dim - 1) * stride + 1], [axis])
    return result


def _dims_before(shape: Sequence[int], strides: Sequence[int], axis: int) -> list[int]:
    """Return the dimensions after dilation up to an axis, which is not cut yet."""
    done = [(dim - 1) * stride + 1 for dim, stride in zip(shape[:axis], strides, strict=False)]
    return [*done, shape[axis] * strides[axis], *shape[axis + 1 :]]


def fifo_buffer(site: Site) -> Tensor:
    """Return the buffer and the data joined, without the oldest elements."""
    axis = site.axis(site.attrs(FIFOBufferAttrs).axis)
    both = site.builder.concat([site[1], site[0]], axis)
    return site.builder.slice(both, [site.static_dims([site.shape()[axis]])[0]], [INT64_MAX], [axis])


def cross_entropy(has_logits: bool) -> Converter:
    """Return the converter of the cross entropy."""

    def convert(site: Site) -> Tensor:
        builder = site.builder
        logits = site[0] if has_logits else builder.emit("Log", site[0])
        total = builder.reduce("ReduceSum", builder.emit("Mul", logits, site[1]), [0, 1], keepdims=False)
        return builder.emit("Div", total, site.like(-site.static_dims(site.shape()[:1])[0]))

    return convert


def nll_loss(site: Site) -> Tensor:
    """Return the negative log likelihood of target classes."""
    attrs = site.attrs(NLLLossAttrs)
    targets = site.builder.cast(site[1], "int64")
    return site.builder.emit(
        "NegativeLogLikelihoodLoss",
        site[0],
        targets,
        site[2],
        reduction=attrs.reduction,
        ignore_index=attrs.ignore_index,
    )


TABLE: Final[Table] = {
    "dyn.nn.pad": dyn_pad,
    "nn.batch_norm": batch_norm,
    "nn.batch_to_space_nd": batch_to_space,
    "nn.cross_entropy": cross_entropy(has_logits=False),
    "nn.cross_entropy_with_logits": cross_entropy(has_logits=True),
    "nn.depth_to_space": depth_to_space,
    "nn.dilate": dilate,
    "nn.dropout": dropout,
    "nn.fast_softmax": softmax("Softmax"),
    "nn.fifo_buffer": fifo_buffer,
    "nn.group_norm": group_norm,
    "nn.instance_norm": instance_norm,
    "nn.l2_normalize": l2_normalize,
    "nn.layer_norm": layer_norm,
    "nn.leaky_relu": leaky_relu,
    "nn.log_softmax": softmax("LogSoftmax"),
    "nn.lrn": lrn,
    "nn.mirror_pad": mirror_pad,
    "nn.nll_loss": nll_loss,
    "nn.pad": pad,
    "nn.prelu": prelu,
    "nn.relu": relu,
    "nn.softmax": softmax("Softmax"),
    "nn.space_to_batch_nd": space_to_batch,
    "nn.space_to_depth": space_to_depth,
}
"""The converters of this module."""
