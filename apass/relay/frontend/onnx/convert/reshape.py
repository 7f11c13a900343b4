"""The same elements in another shape or order."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.expr import Constant, Expr
from apass.relay.frontend.onnx.dims import DimOf, dims_of
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.op.define.dims import broadcast_dims
from apass.relay.ty import Dim

__all__ = ["TABLE", "broadcast_dims_of", "expanded"]


def reshape_to_attribute(node: Node) -> Expr:
    """Return the elements in the shape of an attribute, where 0 stands for the dimension at that place."""
    return op.reshape(node[0], node.integers("shape") or ())


def reshape(node: Node) -> Expr:
    """Return the elements in the shape of an input."""
    shape = node.ints_or_expr(1)
    takes_zero = bool(node.integer("allowzero", 0))
    if isinstance(shape, Expr):
        shape = _codes(node, shape) or shape
    allowzero = takes_zero and (isinstance(shape, Expr) or 0 in shape)
    return op.reshape(node[0], shape, allowzero=allowzero)


def _codes(node: Node, shape: Expr) -> tuple[int, ...] | None:
    """Return a shape that is computed from dimensions with the codes of reshape for them; None if they do not do.

    A dimension of the data in its own place is copied, and a single one of any other origin is what is left.
    """
    dims = dims_of(node.facts, shape)
    if dims is None or node.integer("allowzero", 0):
        return None
    copied = [0 if one == DimOf(node[0], axis) else one for axis, one in enumerate(dims)]
    codes = tuple(one if isinstance(one, int) else -1 for one in copied)
    return codes if codes.count(-1) <= 1 else None


def flatten(node: Node) -> Expr:
    """Return the elements as a matrix: the dimensions before an axis joined, and those from it on."""
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
        raise node.unsupported(f"the dimensions of {node.type_of(data)} are not known; give them in shape=")
    if rows is None or columns is None:
        return op.reshape(data, (-1 if rows is None else rows, -1 if columns is None else columns))
    return op.reshape(data, (rows, columns), allowzero=True) if 0 in (rows, columns) else _rows(data, rows, axis)


def _rows(data: Expr, rows: int, axis: int) -> Expr:
    return op.nn.batch_flatten(data) if axis == 1 else op.reshape(data, (rows, -1))


def _product(dims: Sequence[Dim]) -> int | None:
    """Return the product of dimensions, None if one is not known."""
    known = [dim for dim in dims if isinstance(dim, int)]
    return int(np.prod(known)) if len(known) == len(dims) else None


def transpose(node: Node) -> Expr:
    """Return the tensor with its axes in another order: turned round, unless told otherwise."""
    axes = node.integers("perm")
    return op.transpose(node[0], axes=tuple(reversed(range(node.rank(node[0])))) if axes is None else axes)


def squeeze(node: Node) -> Expr:
    """Return the tensor without axes of size 1: those that are given, else all of them."""
    data = node[0]
    if node.version >= 13 and node.get(1) is not None and node.known(node[1]) is None:
        return op.squeeze(data, axis=node[1])
    axes = node.ints(1) if node.version >= 13 else node.integers("axes")
    if axes is None:
        axes = tuple(axis for axis, dim in enumerate(node.static_shape(data)) if dim == 1)
    return op.squeeze(data, axis=[node.normal_axis(axis, node.rank(data)) for axis in axes]) if axes else data


def unsqueeze(node: Node) -> Expr:
    """Return the tensor with new axes of size 1, counted in the result."""
    data = node[0]
    if node.version >= 13 and node.known(node[1]) is None and node.shape(node[1]) in ((), (1,)):
        return op.expand_dims(data, axis=node[1])
    axes = (node.ints(1) if node.version >= 13 else node.integers("axes")) or ()
    rank = node.rank(data) + len(axes)
    for axis in sorted(node.normal_axis(one, rank) for one in axes):
        data = op.expand_dims(data, axis=axis)
    return data


def concat(node: Node) -> Expr:
    """Return tensors put one behind another along an axis."""
    parts = node.given()
    axis = node.axis(parts[0], 1 if node.version < 4 else None)
    return op.concatenate(parts, axis=axis)


def split(node: Node) -> Sequence[Expr]:
    """Return a tensor cut into pieces along an axis, equal ones if their sizes are not given."""
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
    """Return the sizes of equal pieces; since version 18 what is left for the last ones may be less."""
    size = -(-dim // count)
    if size * count != dim and node.version < 18:
        raise node.unsupported(f"a dimension of {dim} cannot be cut into {count} equal pieces")
    return tuple(max(min(size, dim - size * place), 0) for place in range(count))


def expanded(node: Node, data: Expr, shape: Sequence[Dim]) -> Expr:
    """Return a tensor broadcast against a shape."""
    dims = broadcast_dims_of(node, node.shape(data), shape)
    return data if dims == node.static_shape(data) else op.broadcast_to(data, dims)


def broadcast_dims_of(node: Node, *shapes: Sequence[Dim]) -> tuple[int, ...]:
    """Return the shape of tensors broadcast against each other, which has to be known."""
    dims = broadcast_dims(*shapes)
    known = tuple(dim for dim in dims if isinstance(dim, int))
    if len(known) != len(dims):
        raise node.unsupported("a dimension is not known; give it with from_onnx(..., shape=...)")
    return known


def expand(node: Node) -> Expr:
    """Return a tensor broadcast against a shape that is an input."""
    data, shape = node[0], node.ints_or_expr(1)
    if not isinstance(shape, Expr) and node.type_of(data).is_static:
        return expanded(node, data, shape)
    wanted = shape if isinstance(shape, Expr) else Constant(np.asarray(shape, "int64"))
    own = op.shape_of(data, dtype="int64")
    ranks = node.rank(data), node.static_dim(wanted, 0)
    rank = max(ranks)
    padded = [
        op.concatenate([Constant(np.ones(rank - one, "int64")), dims], axis=0) if one < rank else dims
        for dims, one in zip((own, wanted), ranks, strict=True)
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
        repeats = tuple(count if one == axis else 1 for one in range(node.rank(data)))
    return op.tile(data, repeats) if repeats else data


def shape_of(node: Node) -> Expr:
    """Return the dimensions, from one axis to another."""
    data = node[0]
    rank = node.rank(data)
    chosen = slice(node.integer("start", 0), node.integer("end", rank))
    dims = node.shape(data)[chosen]
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(dims):
        return Constant(np.asarray(known, "int64"))
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
    """Return an image whose blocks are spread from the channels."""
    data, block = node[0], node.integer("blocksize")
    batch, channels, height, width = node.static_shape(data)
    depth = channels // block**2
    is_crd = node.text("mode", "DCR") == "CRD"
    split_shape = (batch, depth, block, block, height, width) if is_crd else (batch, block, block, depth, height, width)
    apart = op.reshape(data, split_shape)
    mixed = op.transpose(apart, axes=(0, 1, 4, 2, 5, 3) if is_crd else (0, 3, 4, 1, 5, 2))
    return op.reshape(mixed, (batch, depth, height * block, width * block))


def space_to_depth(node: Node) -> Expr:
    """Return an image whose blocks are gathered into the channels."""
    data, block = node[0], node.integer("blocksize")
    batch, channels, height, width = node.static_shape(data)
    apart = op.reshape(data, (batch, channels, height // block, block, width // block, block))
    is_crd = node.text("mode", "DCR") == "CRD"
    mixed = op.transpose(apart, axes=(0, 1, 3, 5, 2, 4) if is_crd else (0, 3, 5, 1, 2, 4))
    return op.reshape(mixed, (batch, channels * block**2, height // block, width // block))


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
