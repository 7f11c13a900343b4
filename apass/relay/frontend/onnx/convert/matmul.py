"""Matrix products."""

import math
from typing import Final

import numpy.typing as npt

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Expr
from apass.relay.op import nn
from apass.relay.op.define.dims import broadcast_dims

__all__ = ["TABLE", "along_axis", "centred", "product"]


def matmul(node: Node) -> Expr:
    """Return the product of two tensors, as defined by `numpy.matmul`."""
    return product(node, node[0], node[1])


def product(node: Node, left: Expr, right: Expr) -> Expr:
    """Return the product of two tensors.

    A vector is a row on the left and a column on the right.
    """
    ranks = node.rank(left), node.rank(right)
    rows = op.expand_dims(left, axis=0) if ranks[0] == 1 else left
    columns = op.expand_dims(right, axis=1) if ranks[1] == 1 else right
    result = _of_matrices(node, rows, columns)
    if ranks[1] == 1:
        result = op.squeeze(result, axis=[-1])
    return op.squeeze(result, axis=[-1 if ranks[1] == 1 else -2]) if ranks[0] == 1 else result


def _of_matrices(node: Node, left: Expr, right: Expr) -> Expr:
    if node.rank(right) == 2:
        return nn.dense(left, op.transpose(right, axes=(1, 0)))
    if node.rank(left) == node.rank(right) == 3:
        return _of_batches(node, left, right)
    if not (node.type_of(left).is_static and node.type_of(right).is_static) and _have_equal_batches(node, left, right):
        return _of_dynamic_batches(node, left, right)
    shapes = node.static_shape(left), node.static_shape(right)
    batch = _broadcast(node, shapes[0][:-2], shapes[1][:-2])
    stacks = [_stacked(node, data, batch) for data in (left, right)]
    return op.reshape(_of_batches(node, *stacks), (*batch, shapes[0][-2], shapes[1][-1]))


def _have_equal_batches(node: Node, left: Expr, right: Expr) -> bool:
    """Return whether batch dimensions are equal; unknown ones are assumed to be."""
    pairs = zip(node.shape(left)[:-2], node.shape(right)[:-2], strict=False)
    return node.rank(left) == node.rank(right) and all(a == b for a, b in pairs)


def _of_dynamic_batches(node: Node, left: Expr, right: Expr) -> Expr:
    """Return the products of two batches of equal, dynamic shape.

    The batch dimensions are merged for the product, and split again.
    """
    merged = [left, right]
    for _ in range(node.rank(left) - 3):
        # Reshape codes: -3 merges two dimensions, -2 copies the rest.
        merged = [op.reshape(data, (-3, -2)) for data in merged]
    products = _of_batches(node, *merged)
    return op.reshape_like(products, left, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=node.rank(left) - 2)


def _broadcast(node: Node, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    dims = broadcast_dims(left, right)
    return tuple(dim for dim in dims if isinstance(dim, int))


def _stacked(node: Node, data: Expr, batch: tuple[int, ...]) -> Expr:
    """Return a tensor of matrices broadcast to a batch shape, with one batch axis."""
    shape = node.static_shape(data)
    if math.prod(shape[:-2]) == 1:
        return op.reshape(data, (1, *shape[-2:]))
    full = data if shape[:-2] == batch else op.broadcast_to(data, (*batch, *shape[-2:]))
    return op.reshape(full, (math.prod(batch), *shape[-2:]))


def _of_batches(node: Node, left: Expr, right: Expr) -> Expr:
    if node.config["use_nt_batch_matmul"]:
        return nn.batch_matmul(left, op.transpose(right, axes=(0, 2, 1)))
    return nn.batch_matmul(left, right, transpose_b=False)


def along_axis(node: Node, data: Expr, matrix: npt.ArrayLike, axis: int) -> Expr:
    """Return data with each vector along an axis multiplied by a constant matrix."""
    rank, weights = node.rank(data), node.constant(matrix, data)
    if axis == rank - 1:
        return nn.dense(data, weights)
    order = [*(other for other in range(rank) if other != axis), axis]
    back = [order.index(other) for other in range(rank)]
    return op.transpose(nn.dense(op.transpose(data, axes=order), weights), axes=back)


def gemm(node: Node) -> Expr:
    """Return alpha * A' * B' + beta * C, where A' and B' may be transposed."""
    left, right, bias = node[0], node[1], node.get(2)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    rows = op.transpose(left, axes=(1, 0)) if node.integer("transA", 0) else left
    scaled = rows if alpha == 1.0 else op.multiply(node.constant(alpha, rows), rows)
    columns = right if node.integer("transB", 0) else op.transpose(right, axes=(1, 0))
    total = nn.dense(scaled, columns)
    if bias is None or beta == 0.0:
        return total
    return op.add(total, bias if beta == 1.0 else op.multiply(node.constant(beta, bias), bias))


def matmul_integer(node: Node) -> Expr:
    """Return the product of integers minus their zero points, in 32 bits."""
    return product(node, centred(node, 0, 2, -2), centred(node, 1, 3, -1))


def centred(node: Node, index: int, zero_point: int, axis: int) -> Expr:
    """Return an input minus its zero point, in 32 bits.

    The zero point is one number, or one for each index of an axis.
    """
    data, zero = op.cast(node[index], "int32"), node.get(zero_point)
    if zero is None:
        return data
    shift = as_dtype(node, zero, "int32")
    is_by_row = node.rank(shift) == 1 and axis == -2 and node.shape(shift) != (1,)
    return op.subtract(data, op.expand_dims(shift, axis=1) if is_by_row else shift)


TABLE: Final[Table] = {
    ("", "Gemm", 1): gemm,
    ("", "MatMul", 1): matmul,
    ("", "MatMulInteger", 10): matmul_integer,
}
"""The converters of this module."""
