"""Elements chosen by place: slices, gathers, padding, sorting."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.expr import Constant, Expr
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.make import const
from apass.relay.op import nn

__all__ = ["TABLE", "counted_from_front", "sliced"]


def slice_by_attributes(node: Node) -> Expr:
    """Return a part of a tensor; where it begins and ends are attributes."""
    begins, ends = node.integers("starts") or (), node.integers("ends") or ()
    return sliced(node, node[0], begins, ends, node.integers("axes"), None)


def slice_by_inputs(node: Node) -> Expr:
    """Return a part of a tensor; where it begins and ends are inputs."""
    places = [None if one is None else node.known(one) for one in (node.get(index) for index in (1, 2, 4))]
    is_given = [node.get(index) is not None for index in (1, 2, 4)]
    if any(given and known is None for given, known in zip(is_given, places, strict=True)):
        return _sliced_at_run_time(node)
    return sliced(node, node[0], node.ints(1) or (), node.ints(2) or (), node.ints(3), node.ints(4))


def _sliced_at_run_time(node: Node) -> Expr:
    """Return a part of a tensor whose bounds are computed: they are set among those of the axes that are whole."""
    data, rank = node[0], node.rank(node[0])
    count = node.static_dim(node[1], 0)
    axes = [node.normal_axis(axis, rank) for axis in node.ints(3) or range(count)]
    steps = node.get(4) or Constant(np.ones(count, "int64"))
    order = Constant(np.asarray([axes.index(axis) if axis in axes else count for axis in range(rank)]))

    def spread(given: Expr, filler: int) -> Expr:
        """Return numbers for all axes: those given for some, a filler for the others."""
        longer = op.concatenate([op.cast(given, "int64"), Constant(np.asarray([filler]))], axis=0)
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
    """Return a part of a tensor, as Python's slices choose it."""
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
    """Return begin, end and step of a slice, within the dimension if that is known."""
    dim = node.shape(data)[axis]
    if not isinstance(dim, int):
        return chosen.start, chosen.stop, chosen.step
    begin, end, step = chosen.indices(dim)
    if step > 0:
        return begin, max(begin, end), step
    # Relay counts a negative end from the back as well: one before the first element is then -dim - 1.
    last = min(begin, end)
    return begin if begin >= 0 else -dim - 1, last if last >= 0 else -dim - 1, step


def counted_from_front(node: Node, indices: Expr, dim: Expr | int) -> Expr:
    """Return indices with those that count from the back, the negative ones, counted from the front."""
    known = node.known(indices)
    if node.dtype(indices).startswith("u") or (known is not None and not np.less(known, 0).any()):
        return indices
    if known is not None and isinstance(dim, int):
        return Constant(np.where(np.less(known, 0), np.add(known, dim), known).astype(known.dtype))
    size = const(dim, node.dtype(indices)) if isinstance(dim, int) else as_dtype(node, dim, node.dtype(indices))
    return op.where(op.less(indices, node.constant(0, indices)), op.add(indices, size), indices)


def _dim(node: Node, data: Expr, axis: int) -> Expr | int:
    """Return a dimension: a number, or an expression if it is known only at run time."""
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
    """Return the elements whose place along an axis is the index, and is the same along the others."""
    data = node[0]
    axis = node.axis(data, 0)
    return op.gather(data, axis, counted_from_front(node, node[1], _dim(node, data, axis)))


def gather_nd(node: Node) -> Expr:
    """Return the slices at tuples of indices, which lie along the last axis of the second input."""
    data, indices = node[0], node[1]
    batch_dims = node.integer("batch_dims", 0)
    rank, count = node.rank(indices), node.static_dim(indices, -1)
    dims = node.static_shape(data)[batch_dims : batch_dims + count]
    front = nonnegative_tuples(node, indices, dims)
    first = op.transpose(front, axes=(rank - 1, *range(rank - 1)))
    return op.gather_nd(data, first, batch_dims=batch_dims, index_rank=count)


def nonnegative_tuples(node: Node, indices: Expr, dims: Sequence[int]) -> Expr:
    """Return tuples of indices, which lie along the last axis, with negative ones counted from the front."""
    known = node.known(indices)
    if known is not None and not np.less(known, 0).any():
        return indices
    sizes = node.constant(np.asarray(dims), indices)
    return op.where(op.less(indices, node.constant(0, indices)), op.add(indices, sizes), indices)


def pad(node: Node) -> Expr:
    """Return a tensor with elements added around it."""
    data, rank = node[0], node.rank(node[0])
    if node.version >= 11:
        widths, filler = node.ints(1) or (), node.get(2)
        axes = node.ints(3) if node.version >= 18 else None
    else:
        widths, filler = node.integers("pads" if node.version >= 2 else "paddings") or (), None
        axes = None
    chosen = range(rank) if axes is None else [node.normal_axis(axis, rank) for axis in axes]
    pairs = [(0, 0)] * rank
    for place, axis in enumerate(chosen):
        pairs[axis] = (widths[place], widths[place + len(chosen)])
    return padded(node, data, pairs, filler)


def padded(node: Node, data: Expr, pairs: Sequence[tuple[int, int]], filler: Expr | None) -> Expr:
    """Return a tensor with elements added before and behind each dimension; negative numbers take some away."""
    mode = node.text("mode", "constant")
    if any(width < 0 for pair in pairs for width in pair):
        shape = node.static_shape(data)
        begins = [max(-before, 0) for before, _ in pairs]
        ends = [dim - max(-behind, 0) for dim, (_, behind) in zip(shape, pairs, strict=True)]
        data = sliced(node, data, begins, ends, None, None)
        pairs = [(max(before, 0), max(behind, 0)) for before, behind in pairs]
    if mode != "constant":
        return _continued(node, data, pairs, mode)
    if filler is None:
        filler = node.constant(node.number("value", 0.0) if node.version < 11 else 0, data)
    return nn.pad(data, pairs, pad_value=op.reshape(filler, ()) if node.rank(filler) else filler)


def _continued(node: Node, data: Expr, pairs: Sequence[tuple[int, int]], mode: str) -> Expr:
    """Return a tensor continued beyond its edges by elements of its own."""
    numpys = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}.get(mode)
    if numpys is None:
        raise node.unsupported(f"its mode is {mode!r}")
    for axis, (before, behind) in enumerate(pairs):
        if before or behind:
            dim = node.static_dim(data, axis)
            places = np.pad(np.arange(dim), (before, behind), mode="edge" if numpys == "edge" else "reflect")
            if numpys == "wrap":
                places = np.arange(-before, dim + behind) % dim
            data = op.take(data, Constant(places), axis=axis)
    return data


def top_k(node: Node) -> Sequence[Expr]:
    """Return the greatest or the least elements along an axis, and their places."""
    data = node[0]
    count: int | Expr = node.integer("k") if node.version < 10 else _count(node)
    if count == 0:
        nothing = sliced(node, data, [0], [0], [node.axis(data, -1)], None)
        return [nothing, op.cast(nothing, "int64")]
    found = op.topk(
        data,
        k=count,
        axis=node.axis(data, -1),
        ret_type="both",
        is_ascend=not node.integer("largest", 1),
        dtype="int64",
    )
    return [found[0], found[1]]


def _count(node: Node) -> int | Expr:
    count = node.ints_or_expr(1)
    return op.reshape(count, (1,)) if isinstance(count, Expr) else count[0]


def non_zero(node: Node) -> Expr:
    """Return the places of the elements that are not zero, a column for each."""
    return op.cast(op.transpose(op.argwhere(node[0]), axes=(1, 0)), "int64")


def compress(node: Node) -> Expr:
    """Return the slices along an axis at which a condition is true; of the flat tensor without an axis."""
    condition = node.known(node[1])
    data = node[0] if "axis" in node.attributes else op.reshape(node[0], (-1,))
    axis = node.axis(data, 0)
    if condition is None:
        return op.take(data, op.squeeze(op.argwhere(node[1]), axis=[1]), axis=axis)
    return op.take(data, Constant(np.flatnonzero(condition)), axis=axis)


def reverse_sequence(node: Node) -> Expr:
    """Return each sequence of a batch with so many of its first elements turned round."""
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
