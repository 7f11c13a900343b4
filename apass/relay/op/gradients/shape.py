"""Gradients of operators that move elements: reshape, transpose, concatenate, pad."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from apass.relay.ir.calls import attrs_of, call_op, tensor_type
from apass.relay.ir.expr import Call, Expr, Tuple
from apass.relay.op.define.dims import axis_of
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.convert import cast_like, zeros_like
from apass.relay.op.gradients.separable import pad_gradient
from apass.relay.op.gradients.support import fields_of, rank_of, register_zero, static_shape
from apass.relay.op.nn.fifo_buffer import FIFOBufferAttrs
from apass.relay.op.nn.pad import PadAttrs
from apass.relay.op.nn.space.batch import (
    BatchToSpaceNDAttrs,
    DilateAttrs,
    SpaceToBatchNDAttrs,
    batch_to_space_nd,
    space_to_batch_nd,
)
from apass.relay.op.nn.space.depth import SubPixelAttrs, depth_to_space, space_to_depth
from apass.relay.op.reduce import sum as sum_of
from apass.relay.op.shape.axes import (
    ExpandDimsAttrs,
    LayoutTransformAttrs,
    ReverseAttrs,
    TransposeAttrs,
    layout_transform,
    reverse,
    squeeze,
    transpose,
)
from apass.relay.op.shape.broadcast import RepeatAttrs, TileAttrs, broadcast_to_like, collapse_sum_like
from apass.relay.op.shape.create import MeshgridAttrs, arange
from apass.relay.op.shape.join import ConcatenateAttrs, SplitAttrs, StackAttrs, concatenate, split
from apass.relay.op.shape.reshape import reshape, reshape_like
from apass.relay.op.shape.slicing import StridedSliceAttrs, slices_of, strided_set, strided_slice

__all__: list[str] = []


def _with_zeros(first: Callable[[Call, Expr], Expr]) -> Callable[[Call, Expr], Sequence[Expr]]:
    """Return a gradient that is zero for all arguments but the first."""

    def gradient(orig: Call, grad: Expr) -> Sequence[Expr]:
        return [first(orig, grad), *map(zeros_like, orig.args[1:])]

    return gradient


def _reshaped(orig: Call, grad: Expr) -> Expr:
    return reshape_like(grad, orig.args[0])


def _collapsed(orig: Call, grad: Expr) -> Expr:
    return collapse_sum_like(grad, orig.args[0])


def _broadcast(orig: Call, grad: Expr) -> Expr:
    return broadcast_to_like(grad, orig.args[0])


def _filled(orig: Call, grad: Expr) -> Expr:
    return cast_like(sum_of(grad), orig.args[0])


for _name in ("reshape", "contrib_reverse_reshape", "reshape_like", "squeeze", "nn.batch_flatten", "dyn.reshape"):
    register_gradient(_name, _with_zeros(_reshaped))
for _name in ("dyn.squeeze", "dyn.expand_dims"):
    register_gradient(_name, _with_zeros(_reshaped))
for _name in ("broadcast_to", "broadcast_to_like", "dyn.broadcast_to"):
    register_gradient(_name, _with_zeros(_collapsed))
for _name in ("collapse_sum_like", "collapse_sum_to"):
    register_gradient(_name, _with_zeros(_broadcast))
for _name in ("full", "dyn.full"):
    register_gradient(_name, _with_zeros(_filled))
register_zero(("zeros", "ones", "dyn.zeros", "dyn.ones", "shape_of", "ndarray_size"))


@register_gradient("expand_dims")
def _expand_dims(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, ExpandDimsAttrs)
    rank = rank_of(orig.args[0])
    first = attrs.axis if attrs.axis >= 0 else rank + 1 + attrs.axis
    return [squeeze(grad, range(first, first + attrs.num_newaxis)) if attrs.num_newaxis else grad]


@register_gradient("transpose")
def _transpose(orig: Call, grad: Expr) -> Sequence[Expr]:
    axes = attrs_of(orig, TransposeAttrs).axes
    if axes is None:
        return [transpose(grad)]
    order = [axis_of(len(axes), axis) for axis in axes]
    return [transpose(grad, [order.index(axis) for axis in range(len(order))])]


@register_gradient("reverse")
def _reverse(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [reverse(grad, attrs_of(orig, ReverseAttrs).axis)]


@register_gradient("layout_transform")
def _layout_transform(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, LayoutTransformAttrs)
    return [layout_transform(grad, attrs.dst_layout, attrs.src_layout)]


@register_gradient("concatenate")
def _concatenate(orig: Call, grad: Expr) -> Sequence[Expr]:
    axis = attrs_of(orig, ConcatenateAttrs).axis
    lengths = [tensor_type(field).shape[axis] for field in fields_of(orig)]
    known = [length for length in lengths[:-1] if isinstance(length, int)]
    if len(known) < len(lengths) - 1:
        raise ValueError(f"the gradient of concatenate requires known lengths along axis {axis}, got {lengths}")
    return [split(grad, tuple(accumulate(known)), axis).astuple() if known else Tuple([grad])]


@register_gradient("stack")
def _stack(orig: Call, grad: Expr) -> Sequence[Expr]:
    axis = attrs_of(orig, StackAttrs).axis
    return [Tuple([squeeze(part, [axis]) for part in split(grad, len(fields_of(orig)), axis)])]


@register_gradient("nn.fifo_buffer")
def _fifo_buffer(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, buffer = orig.args
    axis = attrs_of(orig, FIFOBufferAttrs).axis
    added, size = (static_shape("nn.fifo_buffer", arg)[axis] for arg in (data, buffer))
    newer, newest = split(grad, (size - added,), axis)
    return [newest, concatenate([zeros_like(data), newer], axis)]


@register_gradient("split")
def _split(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [concatenate(grad, attrs_of(orig, SplitAttrs).axis)]


@register_gradient("repeat")
def _repeat(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, RepeatAttrs)
    if attrs.axis is None:
        return [reshape_like(sum_of(reshape(grad, (-1, attrs.repeats)), 1), data)]
    axis = axis_of(rank_of(data), attrs.axis)
    # -4 splits the axis into one of the old size, and one of the repetitions.
    parts = reshape(grad, (*(0 for _ in range(axis)), -4, -1, attrs.repeats, -2))
    return [sum_of(parts, axis + 1)]


@register_gradient("tile")
def _tile(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, reps = orig.args[0], attrs_of(orig, TileAttrs).reps
    rank = max(rank_of(data), len(reps))
    counts = (*(1 for _ in range(rank - len(reps))), *reps)
    parts = reshape(grad, [code for count in counts for code in (-4, count, -1)])
    return [reshape_like(sum_of(parts, range(0, 2 * rank, 2)) if rank else grad, data)]


@register_gradient("meshgrid")
def _meshgrid(orig: Call, grad: Expr) -> Sequence[Expr]:
    fields, swapped = fields_of(orig), attrs_of(orig, MeshgridAttrs).indexing == "xy"
    parts: list[Expr] = []
    for index, field in enumerate(fields):
        axis = 1 - index if swapped and index < 2 <= len(fields) else index
        others = [other for other in range(len(fields)) if other != axis]
        total = sum_of(grad[index], others) if others else grad[index]
        parts.append(total if rank_of(field) else sum_of(total))
    return [Tuple(parts)]


@register_gradient("arange")
def _arange(orig: Call, grad: Expr) -> Sequence[Expr]:
    start, stop, step = orig.args
    positions = arange(call_op("ndarray_size", orig, dtype="int32"), dtype="int32")
    weighted = sum_of(cast_like(positions, grad) * grad)
    return [cast_like(sum_of(grad), start), zeros_like(stop), cast_like(weighted, step)]


@register_gradient("strided_slice")
def _strided_slice(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, StridedSliceAttrs)
    shape = static_shape("strided_slice", data)
    slices = slices_of(attrs.begin, attrs.end, attrs.strides, attrs.slice_mode)
    axes = range(len(slices)) if attrs.axes is None else [axis_of(len(shape), axis) for axis in attrs.axes]
    chosen = dict(zip(axes, slices, strict=True))
    # A slice with a negative step that reaches the first element has no integer end: set the elements from the front.
    ranges = [range(dim)[chosen.get(axis, slice(None))] for axis, dim in enumerate(shape)]
    for axis, positions in enumerate(ranges):
        if positions.step < 0:
            grad = reverse(grad, axis)
    ascending = [positions if positions.step > 0 else positions[::-1] for positions in ranges]
    if not all(ascending):
        return [zeros_like(data)]
    begin, end = [positions.start for positions in ascending], [positions.stop for positions in ascending]
    strides = [positions.step for positions in ascending]
    return [strided_set(zeros_like(data), grad, begin, end, strides) if shape else grad]


@register_gradient("slice_like")
def _slice_like(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, like = orig.args
    shape = static_shape("slice_like", orig)
    begin, strides = [0] * len(shape), [1] * len(shape)
    return [strided_set(zeros_like(data), grad, begin, shape, strides) if shape else grad, zeros_like(like)]


@register_gradient("strided_set")
def _strided_set(orig: Call, grad: Expr) -> Sequence[Expr]:
    _, value, begin, end, strides = orig.args
    data = strided_set(grad, zeros_like(value), begin, end, strides)
    # The value is broadcast to the shape of the slice.
    chosen = collapse_sum_like(strided_slice(grad, begin, end, strides), value)
    return [data, chosen, *map(zeros_like, (begin, end, strides))]


@register_gradient("nn.pad")
def _pad(orig: Call, grad: Expr) -> Sequence[Expr]:
    value, attrs = orig.args[1], attrs_of(orig, PadAttrs)
    if attrs.pad_mode != "constant":
        return [pad_gradient(orig, grad, attrs.pad_width, np.zeros(())), zeros_like(value)]
    unpadded = call_op(
        "nn.pad", grad, zeros_like(value), pad_width=tuple((-before, -after) for before, after in attrs.pad_width)
    )
    # What does not come from the data comes from the padding.
    kept = call_op("nn.pad", unpadded, zeros_like(value), pad_width=attrs.pad_width)
    return [unpadded, cast_like(sum_of(grad - kept), value)]


@register_gradient("nn.space_to_depth")
def _space_to_depth(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, SubPixelAttrs)
    return [depth_to_space(grad, attrs.block_size, attrs.layout)]


@register_gradient("nn.depth_to_space")
def _depth_to_space(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, SubPixelAttrs)
    back = space_to_depth(grad, attrs.block_size, attrs.layout)
    if attrs.mode == "DCR":
        return [back]
    # space_to_depth numbers the channels with the position first: move the position after the channel.
    plain = layout_transform(back, attrs.layout, "NCHW")
    split_channels = reshape(plain, (0, -4, attrs.block_size**2, -1, -2))
    ordered = reshape(transpose(split_channels, (0, 2, 1, 3, 4)), (0, -3, -2))
    return [layout_transform(ordered, "NCHW", attrs.layout)]


@register_gradient("nn.space_to_batch_nd")
def _space_to_batch_nd(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, SpaceToBatchNDAttrs)
    return [batch_to_space_nd(grad, attrs.block_shape, attrs.paddings)]


@register_gradient("nn.batch_to_space_nd")
def _batch_to_space_nd(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, BatchToSpaceNDAttrs)
    return [space_to_batch_nd(grad, attrs.block_shape, attrs.crops)]


@register_gradient("nn.dilate")
def _dilate(orig: Call, grad: Expr) -> Sequence[Expr]:
    strides = attrs_of(orig, DilateAttrs).strides
    if not strides:
        return [grad]
    ends = static_shape("nn.dilate", orig)
    return [strided_slice(grad, [0] * len(ends), ends, strides)]
