"""Creation of tensors: constants, ranges, one-hot vectors, triangles."""

from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.frontend.onnx.protos import dtype_of
from apass.relay.ir.expr import Constant, Expr, const

__all__ = ["TABLE"]


def constant(node: Node) -> Expr:
    """Return the value of the attribute that is set."""
    for name in ("value", "sparse_value"):
        tensor = node.tensor(name)
        if tensor is not None:
            return Constant(tensor)
    for name, dtype in (("value_float", "float32"), ("value_int", "int64")):
        if name in node.attributes:
            return Constant(np.asarray(node.attributes[name], dtype))
    floats, ints = node.numbers("value_floats"), node.integers("value_ints")
    if floats is not None:
        return Constant(np.asarray(floats, "float32"))
    if ints is not None:
        return Constant(np.asarray(ints, "int64"))
    raise node.unsupported("a constant must hold numbers or a tensor")


def constant_of_shape(node: Node) -> Expr:
    """Return a tensor of a shape, filled with one value."""
    value = node.tensor("value")
    filler = Constant(np.zeros((), "float32") if value is None else value.reshape(()))
    return op.full(filler, node.ints_or_expr(0), node.dtype(filler))


def eye_like(node: Node) -> Expr:
    """Return ones on a diagonal and zeros elsewhere."""
    rows, columns = node.static_shape(node[0])
    dtype = dtype_of(node.integer("dtype")) if "dtype" in node.attributes else node.dtype(node[0])
    return Constant(np.eye(rows, columns, k=node.integer("k", 0)).astype(np.dtype(dtype)))


def arange(node: Node) -> Expr:
    """Return the numbers from a start to a limit, in steps."""
    dtype = node.dtype(node[0])
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    start, limit, step = (node.constant_value(node[index]) for index in range(3))
    if start is None or limit is None or step is None:
        first, last, distance = (op.reshape(as_dtype(node, node[index], wide), ()) for index in range(3))
        return as_dtype(node, op.arange(first, last, distance, dtype=wide), dtype)
    begin, end, delta = (np.asarray(value).reshape(()).astype(wide) for value in (start, limit, step))
    count = max(int(np.ceil((end - begin) / delta)), 0)
    return Constant((begin + np.arange(count).astype(wide) * delta).astype(np.dtype(dtype)))


def one_hot(node: Node) -> Expr:
    """Return one value where the position on a new axis is the index, else another.

    Negative indices count from the end.
    """
    indices, values = node[0], node[2]
    if node.constant_value(node[1]) is None:
        return _dynamic_one_hot(node)
    depth = int((node.ints(1) or (0,))[0])
    rank = node.rank(indices) + 1
    axis = node.normal_axis(node.integer("axis", -1), rank)
    wide = op.cast(op.expand_dims(indices, axis=axis), "int64")
    counted = op.where(op.less(wide, const(0, "int64")), op.add(wide, const(depth, "int64")), wide)
    positions = np.arange(depth).reshape([-1] + [1] * (rank - axis - 1))
    off, on = (op.take(values, const(index, "int64"), axis=0) for index in (0, 1))
    return op.where(op.equal(counted, Constant(positions)), on, off)


def _dynamic_one_hot(node: Node) -> Expr:
    """Return `one_hot` with a depth that is known only at run time."""
    axis = node.normal_axis(node.integer("axis", -1), node.rank(node[0]) + 1)
    depth = op.reshape(op.cast(node[1], "int64"), ())
    wide = op.cast(node[0], "int64")
    counted = op.where(op.less(wide, const(0, "int64")), op.add(wide, depth), wide)
    off, on = (op.take(node[2], const(index, "int64"), axis=0) for index in (0, 1))
    return op.one_hot(counted, on, off, op.reshape(depth, (1,)), axis, node.dtype(node[2]))


def triangle(node: Node) -> Expr:
    """Return the upper or lower triangle of each matrix, with zeros elsewhere."""
    data, shift = node[0], node.get(1)
    rows, columns = node.static_dim(data, -2), node.static_dim(data, -1)
    # The number of the diagonal of each element, counted from the main one.
    diagonals = Constant(np.arange(columns) - np.arange(rows)[:, None])
    diagonal = const(0, "int64") if shift is None else op.reshape(shift, ())
    keeps = op.greater_equal if node.integer("upper", 1) else op.less_equal
    return op.where(keeps(diagonals, diagonal), data, node.constant(0, data))


TABLE: Final[Table] = {
    ("", "Constant", 1): constant,
    ("", "ConstantOfShape", 9): constant_of_shape,
    ("", "EyeLike", 9): eye_like,
    ("", "OneHot", 9): one_hot,
    ("", "Range", 11): arange,
    ("", "Trilu", 14): triangle,
}
"""The converters of this module."""
