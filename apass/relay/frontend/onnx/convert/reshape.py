"""Operators that change the shape or the order of the elements."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.dims import DimOf, dims_of
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr
from apass.relay.ir.ty import Dim
from apass.relay.op.define.dims import broadcast_dims

__all__ = ["TABLE", "broadcast_dims_of", "expanded"]


def reshape_to_attribute(node: Node) -> Expr:
    """Return the elements in a shape that is an attribute; 0 copies a dimension."""
    return op.reshape(node[0], node.integers("shape") or ())


def reshape(node: Node) -> Expr:
    """Return the elements in a shape that is an input."""
    shape = node.ints_or_expr(1)
    if isinstance(shape, Expr):
        shape = _codes(node, shape) or shape
    allowzero = bool(node.integer("allowzero", 0)) and (isinstance(shape, Expr) or 0 in shape)
    return op.reshape(node[0], shape, allowzero=allowzero)


def _codes(node: Node, shape: Expr) -> tuple[int, ...] | None:
    """Return a computed shape as codes of Relay's reshape, or None.

    A dimension of the data at its own index becomes 0 (copied). At most one other unknown dimension becomes -1
    (inferred).
    """
    dims = dims_of(node.facts, shape)
    if dims is None or node.integer("allowzero", 0):
        return None
    copied = [0 if dim == DimOf(node[0], axis) else dim for axis, dim in enumerate(dims)]
    codes = tuple(dim if isinstance(dim, int) else -1 for dim in copied)
    return codes if codes.count(-1) <= 1 else None


def flatten(node: Node) -> Expr:
    """Return the elements as a matrix, with the axes before and from an axis merged."""
    data, rank = node[0], node.rank(node[0])
    axis = node.integer("axis", 1)
    axis += rank if axis < 0 else 0
    shape = node.shape(data)
    if axis == 0 or rank == 0:
        return op.reshape(data, (1, -1))
    if axis == rank:
        return op.reshape(data, (-1, 1))
    rows, columns = (_product(part) for part in (shape[:axis], shape[axis:]))
    if rows is None and columns is None:
        ty = node.type_of(data)
        raise node.unsupported(f"every dimension of {ty} must be known; set them with from_onnx(..., shape=...)")
    if rows is None or columns is None:
        return op.reshape(data, (-1 if rows is None else rows, -1 if columns is None else columns))
    return op.reshape(data, (rows, columns), allowzero=True) if 0 in (rows, columns) else _rows(data, rows, axis)


def _rows(data: Expr, rows: int, axis: int) -> Expr:
    return op.nn.batch_flatten(data) if axis == 1 else op.reshape(data, (rows, -1))


def _product(dims: Sequence[Dim]) -> int | None:
    """Return the product of dimensions, or None if a dimension is not known."""
    static = [dim for dim in dims if isinstance(dim, int)]
    return int(np.prod(static)) if len(static) == len(dims) else None


def transpose(node: Node) -> Expr:
    """Return the tensor with its axes permuted, by default reversed."""
    axes = node.integers("perm")
    return op.transpose(node[0], axes=tuple(reversed(range(node.rank(node[0])))) if axes is None else axes)


def squeeze(node: Node) -> Expr:
    """Return the tensor without the given axes, by default without all of size 1."""
    data = node[0]
    if node.version >= 13 and node.get(1) is not None and node.constant_value(node[1]) is None:
        return op.squeeze(data, axis=node[1])
    axes = node.ints(1) if node.version >= 13 else node.integers("axes")
    if axes is None:
        axes = tuple(axis for axis, dim in enumerate(node.static_shape(data)) if dim == 1)
    return op.squeeze(data, axis=[node.normal_axis(axis, node.rank(data)) for axis in axes]) if axes else data


def unsqueeze(node: Node) -> Expr:
    """Return the tensor with new axes of size 1, numbered as in the result."""
    data = node[0]
    if node.version >= 13 and node.constant_value(node[1]) is None and node.shape(node[1]) in ((), (1,)):
        return op.expand_dims(data, axis=node[1])
    axes = (node.ints(1) if node.version >= 13 else node.integers("axes")) or ()
    rank = node.rank(data) + len(axes)
    for axis in sorted(node.normal_axis(new_axis, rank) for new_axis in axes):
        data = op.expand_dims(data, axis=axis)
    return data


def concat(node: Node) -> Expr:
    """Return the concatenation of tensors along an axis."""
    parts = node.present_inputs()
    axis = node.axis(parts[0], 1 if node.version < 4 else None)
    return op.concatenate(parts, axis=axis)


def split(node: Node) -> Sequence[Expr]:
    """Return the parts of a tensor along an axis, of equal size by default."""
    data, count = node[0], len(node.outputs)
    axis = node.axis(data, 0)
    sizes = node.ints(1) if node.version >= 13 or node.version < 2 else node.integers("split")
    if sizes is None:
        sizes = node.integers("split") or _equal_sizes(node, node.static_dim(data, axis), count)
    ends = np.cumsum(sizes).tolist()
    return [
        op.strided_slice(data, begin=[end - size], end=[end], axes=[axis])
        for size, end in zip(sizes, ends, strict=True)
    ]


def _equal_sizes(node: Node, dim: int, count: int) -> tuple[int, ...]:
    """Return the sizes of equal parts; since version 18 the last ones may be smaller."""
    size = -(-dim // count)
    if size * count != dim and node.version < 18:
        raise node.unsupported(f"cannot split a dimension of {dim} into {count} equal parts")
    return tuple(max(min(size, dim - size * index), 0) for index in range(count))


def expanded(node: Node, data: Expr, shape: Sequence[Dim]) -> Expr:
    """Return a tensor broadcast with a shape."""
    dims = broadcast_dims_of(node, node.shape(data), shape)
    return data if dims == node.static_shape(data) else op.broadcast_to(data, dims)


def broadcast_dims_of(node: Node, *shapes: Sequence[Dim]) -> tuple[int, ...]:
    """Return the broadcast shape of tensors, which must be static."""
    dims = broadcast_dims(*shapes)
    static = tuple(dim for dim in dims if isinstance(dim, int))
    if len(static) != len(dims):
        raise node.unsupported("every dimension must be known; set them with from_onnx(..., shape=...)")
    return static


def expand(node: Node) -> Expr:
    """Return a tensor broadcast with a shape that is an input."""
    data, shape = node[0], node.ints_or_expr(1)
    if not isinstance(shape, Expr) and node.type_of(data).is_static:
        return expanded(node, data, shape)
    target = shape if isinstance(shape, Expr) else Constant(np.asarray(shape, "int64"))
    data_shape = op.shape_of(data, dtype="int64")
    ranks = node.rank(data), node.static_dim(target, 0)
    rank = max(ranks)
    padded = [
        op.concatenate([Constant(np.ones(rank - count, "int64")), dims], axis=0) if count < rank else dims
        for dims, count in zip((data_shape, target), ranks, strict=True)
    ]
    is_broadcast = op.equal(padded[0], Constant(np.ones(rank, "int64")))
    return op.broadcast_to(data, op.where(is_broadcast, padded[1], padded[0]))


def tile(node: Node) -> Expr:
    """Return a tensor repeated along its axes."""
    data = node[0]
    repeats = node.ints_or_expr(1)
    if isinstance(repeats, Expr) and node.version >= 6:
        return op.tile(data, repeats)
    repeats = node.ints(1) or ()
    if node.version < 6:
        axis, count = ((node.ints(index) or (0,))[0] for index in (2, 1))
        repeats = tuple(count if other == axis else 1 for other in range(node.rank(data)))
    return op.tile(data, repeats) if repeats else data


def shape_of(node: Node) -> Expr:
    """Return the dimensions of a range of axes."""
    data = node[0]
    rank = node.rank(data)
    chosen = slice(node.integer("start", 0), node.integer("end", rank))
    dims = node.shape(data)[chosen]
    static = [dim for dim in dims if isinstance(dim, int)]
    if len(static) == len(dims):
        return Constant(np.asarray(static, "int64"))
    whole = op.shape_of(data, dtype="int64")
    if len(dims) == rank:
        return whole
    begin, end, _ = chosen.indices(rank)
    return op.strided_slice(whole, begin=[begin], end=[end], axes=[0])


def size(node: Node) -> Expr:
    """Return the number of elements."""
    ty = node.type_of(node[0])
    return (
        Constant(np.asarray(np.prod(ty.concrete_shape), "int64")) if ty.is_static else op.ndarray_size(node[0], "int64")
    )


def identity(node: Node) -> Expr:
    """Return the input."""
    return node[0]


def depth_to_space(node: Node) -> Expr:
    """Return an image whose blocks are taken from the channels."""
    data, block = node[0], node.integer("blocksize")
    batch, channels, height, width = node.static_shape(data)
    depth = channels // block**2
    is_crd = node.text("mode", "DCR") == "CRD"
    split_shape = (batch, depth, block, block, height, width) if is_crd else (batch, block, block, depth, height, width)
    blocks = op.reshape(data, split_shape)
    moved = op.transpose(blocks, axes=(0, 1, 4, 2, 5, 3) if is_crd else (0, 3, 4, 1, 5, 2))
    return op.reshape(moved, (batch, depth, height * block, width * block))


def space_to_depth(node: Node) -> Expr:
    """Return an image whose blocks are moved into the channels."""
    data, block = node[0], node.integer("blocksize")
    batch, channels, height, width = node.static_shape(data)
    blocks = op.reshape(data, (batch, channels, height // block, block, width // block, block))
    is_crd = node.text("mode", "DCR") == "CRD"
    moved = op.transpose(blocks, axes=(0, 1, 3, 5, 2, 4) if is_crd else (0, 3, 5, 1, 2, 4))
    return op.reshape(moved, (batch, channels * block**2, height // block, width // block))


TABLE: Final[Table] = {
    ("", "Concat", 1): concat,
    ("", "DepthToSpace", 1): depth_to_space,
    ("", "Expand", 8): expand,
    ("", "Flatten", 1): flatten,
    ("", "Identity", 1): identity,
    ("", "Reshape", 1): reshape_to_attribute,
    ("", "Reshape", 5): reshape,
    ("", "Shape", 1): shape_of,
    ("", "Size", 1): size,
    ("", "SpaceToDepth", 1): space_to_depth,
    ("", "Split", 1): split,
    ("", "Squeeze", 1): squeeze,
    ("", "Tile", 1): tile,
    ("", "Transpose", 1): transpose,
    ("", "Unsqueeze", 1): unsqueeze,
}
"""The converters of this module."""
