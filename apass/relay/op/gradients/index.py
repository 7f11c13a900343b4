"""Gradients of operators with indices: take, gather, scatter, one_hot, sort, topk."""

from collections.abc import Sequence
from math import prod

import numpy as np

from apass.relay.ir.calls import attrs_of, tensor_type
from apass.relay.ir.expr import Call, Expr, Tuple, const
from apass.relay.op.define.dims import axis_of
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.arithmetic import floor_mod
from apass.relay.op.elementwise.compare import equal
from apass.relay.op.elementwise.convert import cast, cast_like, clip, zeros_like
from apass.relay.op.gradients.support import fields_of, rank_of, register_zero, static_shape
from apass.relay.op.index.diagonal import MatrixSetDiagAttrs, diagonal_positions
from apass.relay.op.index.gather import GatherAttrs, GatherNDAttrs, TakeAttrs, gather, gather_nd, take, where
from apass.relay.op.index.scatter import (
    OneHotAttrs,
    ScatterAddAttrs,
    ScatterAttrs,
    ScatterNDAttrs,
    SparseToDenseAttrs,
    one_hot,
    scatter,
    scatter_add,
    scatter_nd,
)
from apass.relay.op.index.sequence import ReverseSequenceAttrs, SequenceMaskAttrs, reverse_sequence, sequence_mask
from apass.relay.op.index.sort import ArgsortAttrs, TopkAttrs, argsort
from apass.relay.op.reduce import sum as sum_of
from apass.relay.op.shape.axes import expand_dims, transpose
from apass.relay.op.shape.broadcast import broadcast_to
from apass.relay.op.shape.create import arange
from apass.relay.op.shape.join import stack
from apass.relay.op.shape.reshape import reshape, reshape_like

__all__: list[str] = []

register_zero(("argsort", "searchsorted", "invert_permutation"))


def _within(indices: Expr, length: int, mode: str) -> Expr:
    """Return indices as `take` uses them: clipped or wrapped to `length`."""
    wide = cast(indices, "int64")
    if mode == "clip":
        return clip(wide, 0, length - 1)
    return floor_mod(wide, const(length, "int64")) if mode == "wrap" else wide


@register_gradient("take")
def _take(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, indices = orig.args
    attrs = attrs_of(orig, TakeAttrs)
    shape = static_shape("take", data)
    if attrs.batch_dims:
        raise ValueError(f"the gradient of take requires batch_dims=0, got {attrs.batch_dims}")
    if attrs.axis is None:
        flat = reshape(zeros_like(data), (-1,))
        rows = expand_dims(_within(indices, prod(shape), attrs.mode), 0)
        return [reshape_like(scatter_nd(flat, rows, grad, "add"), data), zeros_like(indices)]
    axis, rank, index_rank = axis_of(len(shape), attrs.axis), len(shape), rank_of(indices)
    rows = expand_dims(_within(indices, shape[axis], attrs.mode), 0)
    # scatter_nd adds along the first axis: move the axis of the data and those of the indices there, and back.
    to_front = [axis, *(other for other in range(rank) if other != axis)]
    new_axes = range(axis, axis + index_rank)
    moved = [*new_axes, *(other for other in range(rank - 1 + index_rank) if other not in new_axes)]
    total = scatter_nd(transpose(zeros_like(data), to_front), rows, transpose(grad, moved), "add")
    return [transpose(total, [to_front.index(position) for position in range(rank)]), zeros_like(indices)]


@register_gradient("gather")
def _gather(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, indices = orig.args
    axis = attrs_of(orig, GatherAttrs).axis
    return [scatter_add(zeros_like(data), indices, grad, axis), zeros_like(indices)]


@register_gradient("gather_nd")
def _gather_nd(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, indices = orig.args
    batch_dims = attrs_of(orig, GatherNDAttrs).batch_dims
    if batch_dims:
        raise ValueError(f"the gradient of gather_nd requires batch_dims=0, got {batch_dims}")
    return [scatter_nd(zeros_like(data), indices, grad, "add"), zeros_like(indices)]


def _numbers(op: str, tensor: Expr) -> Expr:
    """Return a different number for each element of a tensor."""
    shape = static_shape(op, tensor)
    return reshape(arange(const(prod(shape), "int64"), dtype="int64"), shape)


@register_gradient("scatter")
def _scatter(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, indices, updates = orig.args
    axis = attrs_of(orig, ScatterAttrs).axis
    # Of several updates of an element, the one that remains has a gradient: scatter numbers to find it.
    numbers = _numbers("scatter", updates)
    remaining = gather(scatter(cast(zeros_like(data), "int64"), indices, numbers, axis), axis, indices)
    chosen = where(equal(remaining, numbers), gather(grad, axis, indices), zeros_like(updates))
    return [scatter(grad, indices, zeros_like(updates), axis), zeros_like(indices), chosen]


@register_gradient("scatter_add")
def _scatter_add(orig: Call, grad: Expr) -> Sequence[Expr]:
    indices, axis = orig.args[1], attrs_of(orig, ScatterAddAttrs).axis
    return [grad, zeros_like(indices), gather(grad, axis, indices)]


@register_gradient("scatter_nd")
def _scatter_nd(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, indices, updates = orig.args
    mode, slopes = attrs_of(orig, ScatterNDAttrs).mode, gather_nd(grad, indices)
    if mode == "add":
        return [grad, zeros_like(indices), slopes]
    numbers = _numbers("scatter_nd", updates)
    remaining = gather_nd(scatter_nd(cast(zeros_like(data), "int64"), indices, numbers), indices)
    chosen = where(equal(remaining, numbers), slopes, zeros_like(updates))
    return [scatter_nd(grad, indices, zeros_like(updates)), zeros_like(indices), chosen]


@register_gradient("one_hot")
def _one_hot(orig: Call, grad: Expr) -> Sequence[Expr]:
    indices, on_value, off_value = orig.args
    attrs = attrs_of(orig, OneHotAttrs)
    hot = one_hot(indices, const(True), const(False), attrs.depth, attrs.axis, "bool")
    zero = zeros_like(grad)
    return [
        zeros_like(indices),
        cast_like(sum_of(where(hot, grad, zero)), on_value),
        cast_like(sum_of(where(hot, zero, grad)), off_value),
    ]


@register_gradient("sort")
def _sort(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, ArgsortAttrs)
    order = argsort(data, attrs.axis, attrs.is_ascend, "int32")
    return [scatter_add(zeros_like(data), order, grad, attrs.axis)]


@register_gradient("topk")
def _topk(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, TopkAttrs)
    if attrs.ret_type == "indices":
        return [zeros_like(data)]
    # The indices of the result may have a type that is no index.
    chosen = Call(orig.op, [data], attrs.replaced(ret_type="indices", dtype="int64"))
    values = grad[0] if attrs.ret_type == "both" else grad
    return [scatter_add(zeros_like(data), chosen, values, attrs.axis)]


@register_gradient("sequence_mask")
def _sequence_mask(orig: Call, grad: Expr) -> Sequence[Expr]:
    lengths = orig.args[1]
    return [sequence_mask(grad, lengths, 0, attrs_of(orig, SequenceMaskAttrs).axis), zeros_like(lengths)]


@register_gradient("reverse_sequence")
def _reverse_sequence(orig: Call, grad: Expr) -> Sequence[Expr]:
    lengths, attrs = orig.args[1], attrs_of(orig, ReverseSequenceAttrs)
    return [reverse_sequence(grad, lengths, attrs.seq_axis, attrs.batch_axis), zeros_like(lengths)]


@register_gradient("adv_index")
def _adv_index(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, *indices = fields_of(orig)
    lengths, result = static_shape("adv_index", data), static_shape("adv_index", orig)
    shape = result[: len(result) - len(lengths) + len(indices)]
    # Negative indices count from the end.
    rows = [
        broadcast_to(floor_mod(cast(index, "int64"), const(length, "int64")), shape)
        for index, length in zip(indices, lengths, strict=False)
    ]
    slope = scatter_nd(zeros_like(data), stack(rows, 0), grad, "add")
    return [Tuple([slope, *map(zeros_like, indices)])]


@register_gradient("sparse_to_dense")
def _sparse_to_dense(orig: Call, grad: Expr) -> Sequence[Expr]:
    indices, values, default = orig.args
    rank = len(attrs_of(orig, SparseToDenseAttrs).output_shape)
    rows = transpose(reshape(cast(indices, "int64"), (-1, rank)), (1, 0))
    count = prod(static_shape("sparse_to_dense", indices)) // rank
    # Of several values at a position, the one that remains has a gradient.
    numbers = arange(const(count, "int64"), dtype="int64")
    remaining = gather_nd(scatter_nd(cast(zeros_like(grad), "int64"), rows, numbers), rows)
    slopes = gather_nd(grad, rows)
    chosen = where(equal(remaining, numbers), slopes, zeros_like(slopes))
    rest = scatter_nd(grad, rows, zeros_like(slopes))
    slope = reshape_like(chosen, values) if rank_of(values) else sum_of(chosen)
    return [zeros_like(indices), slope, cast_like(sum_of(rest), default)]


@register_gradient("matrix_set_diag")
def _matrix_set_diag(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, diagonal = orig.args
    attrs = attrs_of(orig, MatrixSetDiagAttrs)
    *batch, rows, columns = static_shape("matrix_set_diag", data)
    band = static_shape("matrix_set_diag", diagonal)[len(batch) :]
    # The elements that are no part of a diagonal have no gradient.
    positions, is_used = np.zeros(band, "int64"), np.zeros(band)
    for (row, column), source in diagonal_positions(attrs, rows, columns, band[-1]):
        positions[source[-len(band) :]], is_used[source[-len(band) :]] = row * columns + column, 1
    elements = take(reshape(grad, (*batch, rows * columns)), const(positions), len(batch))
    slope = elements * const(is_used, tensor_type(diagonal).dtype)
    return [Call(orig.op, [grad, zeros_like(diagonal)], attrs), slope]
