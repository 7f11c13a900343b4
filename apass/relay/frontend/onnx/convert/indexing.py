"""Indexing: slices, gathers, padding, sorting."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr, const
from apass.relay.op import nn

__all__ = ["TABLE", "counted_from_front", "sliced"]


def slice_by_attributes(node: Node) -> Expr:
    """Return a slice whose bounds are attributes."""
    begins, ends = node.integers("starts") or (), node.integers("ends") or ()
    return sliced(node, node[0], begins, ends, node.integers("axes"), None)


def slice_by_inputs(node: Node) -> Expr:
    """Return a slice whose bounds are inputs."""
    bounds = [node.get(index) for index in (1, 2, 4)]
    if any(bound is not None and node.constant_value(bound) is None for bound in bounds):
        return _dynamic_slice(node)
    return sliced(node, node[0], node.ints(1) or (), node.ints(2) or (), node.ints(3), node.ints(4))


def _dynamic_slice(node: Node) -> Expr:
    """Return a slice whose bounds are computed at run time.

    The other axes get the bounds of the whole axis.
    """
    data, rank = node[0], node.rank(node[0])
    count = node.static_dim(node[1], 0)
    axes = [node.normal_axis(axis, rank) for axis in node.ints(3) or range(count)]
    steps = node.get(4) or Constant(np.ones(count, "int64"))
    order = Constant(np.asarray([axes.index(axis) if axis in axes else count for axis in range(rank)]))

    def spread(bounds: Expr, filler: int) -> Expr:
        """Return bounds for all axes, with a filler for axes that are not sliced."""
        longer = op.concatenate([op.cast(bounds, "int64"), Constant(np.asarray([filler]))], axis=0)
        return op.take(longer, order, axis=0)

    end = spread(node[2], np.iinfo("int64").max)
    return op.strided_slice(data, spread(node[1], 0), end, spread(steps, 1))


def sliced(
    node: Node,
    data: Expr,
    begins: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Expr:
    """Return a slice, with Python's rules for bounds."""
    rank = node.rank(data)
    chosen = [node.normal_axis(axis, rank) for axis in (range(len(begins)) if axes is None else axes)]
    bounds = [
        _bounds(node, data, axis, slice(begin, end, step))
        for axis, begin, end, step in zip(chosen, begins, ends, steps or [1] * len(begins), strict=True)
    ]
    if not bounds:
        return data
    first, last, strides = zip(*bounds, strict=True)
    return op.strided_slice(data, begin=first, end=last, strides=strides, axes=chosen)


def _bounds(node: Node, data: Expr, axis: int, chosen: slice) -> tuple[int, int, int]:
    """Return begin, end and step of a slice, clipped to the dimension if it is known."""
    dim = node.shape(data)[axis]
    if not isinstance(dim, int):
        return chosen.start, chosen.stop, chosen.step
    begin, end, step = chosen.indices(dim)
    if step > 0:
        return begin, max(begin, end), step
    # Relay counts a negative end from the back too, so "before the first element" is -dim - 1.
    last = min(begin, end)
    return begin if begin >= 0 else -dim - 1, last if last >= 0 else -dim - 1, step


def counted_from_front(node: Node, indices: Expr, dim: Expr | int) -> Expr:
    """Return non-negative indices: those that count from the back are converted."""
    value = node.constant_value(indices)
    if node.dtype(indices).startswith("u") or (value is not None and not np.less(value, 0).any()):
        return indices
    if value is not None and isinstance(dim, int):
        return Constant(np.where(np.less(value, 0), np.add(value, dim), value).astype(value.dtype))
    size = const(dim, node.dtype(indices)) if isinstance(dim, int) else as_dtype(node, dim, node.dtype(indices))
    return op.where(op.less(indices, node.constant(0, indices)), op.add(indices, size), indices)


def _dim(node: Node, data: Expr, axis: int) -> Expr | int:
    """Return a dimension as a number, or as an expression if it is dynamic."""
    dim = node.shape(data)[axis]
    if isinstance(dim, int):
        return dim
    return op.take(op.shape_of(data, dtype="int64"), const(axis, "int64"), axis=0)


def gather(node: Node) -> Expr:
    """Return the slices at indices along an axis."""
    data = node[0]
    axis = node.axis(data, 0)
    return op.take(data, counted_from_front(node, node[1], _dim(node, data, axis)), axis=axis)


def gather_elements(node: Node) -> Expr:
    """Return the elements at indices along an axis, at the same position on others."""
    data = node[0]
    axis = node.axis(data, 0)
    return op.gather(data, axis, counted_from_front(node, node[1], _dim(node, data, axis)))


def gather_nd(node: Node) -> Expr:
    """Return the slices at index tuples, which are the last axis of the second input."""
    data, indices = node[0], node[1]
    batch_dims = node.integer("batch_dims", 0)
    rank, count = node.rank(indices), node.static_dim(indices, -1)
    dims = node.static_shape(data)[batch_dims : batch_dims + count]
    front = nonnegative_tuples(node, indices, dims)
    first = op.transpose(front, axes=(rank - 1, *range(rank - 1)))
    return op.gather_nd(data, first, batch_dims=batch_dims, index_rank=count)


def nonnegative_tuples(node: Node, indices: Expr, dims: Sequence[int]) -> Expr:
    """Return index tuples (the last axis) with negative indices converted."""
    value = node.constant_value(indices)
    if value is not None and not np.less(value, 0).any():
        return indices
    sizes = node.constant(np.asarray(dims), indices)
    return op.where(op.less(indices, node.constant(0, indices)), op.add(indices, sizes), indices)


def pad(node: Node) -> Expr:
    """Return a padded tensor."""
    data, rank = node[0], node.rank(node[0])
    if node.version >= 11:
        widths, filler = node.ints(1) or (), node.get(2)
        axes = node.ints(3) if node.version >= 18 else None
    else:
        widths, filler = node.integers("pads" if node.version >= 2 else "paddings") or (), None
        axes = None
    chosen = range(rank) if axes is None else [node.normal_axis(axis, rank) for axis in axes]
    pairs = [(0, 0)] * rank
    for index, axis in enumerate(chosen):
        pairs[axis] = (widths[index], widths[index + len(chosen)])
    return padded(node, data, pairs, filler)


def padded(node: Node, data: Expr, pairs: Sequence[tuple[int, int]], filler: Expr | None) -> Expr:
    """Return a tensor padded on both sides of each axis; negative widths crop it."""
    mode = node.text("mode", "constant")
    if any(width < 0 for pair in pairs for width in pair):
        shape = node.static_shape(data)
        begins = [max(-before, 0) for before, _ in pairs]
        ends = [dim - max(-after, 0) for dim, (_, after) in zip(shape, pairs, strict=True)]
        data = sliced(node, data, begins, ends, None, None)
        pairs = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if mode != "constant":
        return _extended(node, data, pairs, mode)
    if filler is None:
        filler = node.constant(node.number("value", 0.0) if node.version < 11 else 0, data)
    return nn.pad(data, pairs, pad_value=op.reshape(filler, ()) if node.rank(filler) else filler)


def _extended(node: Node, data: Expr, pairs: Sequence[tuple[int, int]], mode: str) -> Expr:
    """Return a tensor padded with its own elements, taken by index."""
    if mode not in ("reflect", "edge", "wrap"):
        raise node.unsupported(f"mode {mode!r} is not supported")
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            dim = node.static_dim(data, axis)
            indices = np.pad(np.arange(dim), (before, after), mode="edge" if mode == "edge" else "reflect")
            if mode == "wrap":
                indices = np.arange(-before, dim + after) % dim
            data = op.take(data, Constant(indices), axis=axis)
    return data


def top_k(node: Node) -> Sequence[Expr]:
    """Return the largest or smallest elements along an axis, and their indices."""
    data = node[0]
    count: int | Expr = node.integer("k") if node.version < 10 else _count(node)
    if count == 0:
        empty = sliced(node, data, [0], [0], [node.axis(data, -1)], None)
        return [empty, op.cast(empty, "int64")]
    result = op.topk(
        data,
        k=count,
        axis=node.axis(data, -1),
        ret_type="both",
        is_ascend=not node.integer("largest", 1),
        dtype="int64",
    )
    return [result[0], result[1]]


def _count(node: Node) -> int | Expr:
    count = node.ints_or_expr(1)
    return op.reshape(count, (1,)) if isinstance(count, Expr) else count[0]


def non_zero(node: Node) -> Expr:
    """Return the indices of the nonzero elements, one column for each."""
    return op.cast(op.transpose(op.argwhere(node[0]), axes=(1, 0)), "int64")


def compress(node: Node) -> Expr:
    """Return the slices along an axis for which a condition is true.

    Without an axis, the tensor is flattened first.
    """
    condition = node.constant_value(node[1])
    data = node[0] if "axis" in node.attributes else op.reshape(node[0], (-1,))
    axis = node.axis(data, 0)
    if condition is None:
        return op.take(data, op.squeeze(op.argwhere(node[1]), axis=[1]), axis=axis)
    return op.take(data, Constant(np.flatnonzero(condition)), axis=axis)


def reverse_sequence(node: Node) -> Expr:
    """Return each sequence of a batch with its first `lengths` elements reversed."""
    lengths = node[1]
    seq_axis, batch_axis = node.integer("time_axis", 0), node.integer("batch_axis", 1)
    return op.reverse_sequence(node[0], lengths, seq_axis=seq_axis, batch_axis=batch_axis)


TABLE: Final[Table] = {
    ("", "Compress", 9): compress,
    ("", "Gather", 1): gather,
    ("", "GatherElements", 11): gather_elements,
    ("", "GatherND", 11): gather_nd,
    ("", "NonZero", 9): non_zero,
    ("", "Pad", 1): pad,
    ("", "ReverseSequence", 10): reverse_sequence,
    ("", "Slice", 1): slice_by_attributes,
    ("", "Slice", 10): slice_by_inputs,
    ("", "TopK", 1): top_k,
}
"""The converters of this module."""
