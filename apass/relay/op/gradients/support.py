"""Helpers of the gradients of operators: fields, shapes, layouts, products."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from apass.relay.ir.calls import scalar_like, tensor_type
from apass.relay.ir.expr import Call, Expr, TupleGetItem, const
from apass.relay.ir.ty import TupleType
from apass.relay.op.define.dims import static_dims
from apass.relay.op.define.layout import convert_shape, parse_layout
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.convert import cast_like, zeros_like
from apass.relay.op.nn.dense.dense import dense
from apass.relay.op.shape.axes import layout_transform, transpose

__all__ = [
    "Derivative",
    "fields_of",
    "in_dtype",
    "in_layout",
    "multiply_axis",
    "rank_of",
    "register_derivative",
    "register_zero",
    "scaled",
    "shape_in",
    "static_shape",
    "zeros",
]

Derivative: TypeAlias = Callable[[Expr], Expr]
"""Returns the derivative of an operator of one tensor at `x`."""


def register_derivative(name: str, derivative: Derivative) -> None:
    """Set the gradient of an elementwise operator to `grad * derivative(x)`."""

    def gradient(orig: Call, grad: Expr) -> Sequence[Expr]:
        return [grad * derivative(orig.args[0])]

    register_gradient(name, gradient)


def register_zero(names: Iterable[str]) -> None:
    """Set the gradients of operators that are constant almost everywhere to zeros."""
    for name in names:
        register_gradient(name, zeros)


def zeros(orig: Call, grad: Expr) -> Sequence[Expr]:
    """Return zeros for each argument of a call."""
    return [zeros_like(arg) for arg in orig.args]


def scaled(expr: Expr, factor: float, like: Expr) -> Expr:
    """Return an expression times a number with the element type of `like`."""
    return expr * scalar_like(factor, like)


def rank_of(expr: Expr) -> int:
    """Return the number of dimensions of a typed tensor."""
    return len(tensor_type(expr).shape)


def fields_of(orig: Call) -> list[TupleGetItem]:
    """Return the typed fields of the tuple that a call gets."""
    data = orig.args[0]
    assert isinstance(data.checked_type, TupleType), "the argument is a tuple of tensors"
    return [TupleGetItem(data, index, checked_type_=ty) for index, ty in enumerate(data.checked_type.fields)]


def static_shape(op: str, expr: Expr) -> tuple[int, ...]:
    """Return the shape of a typed tensor.

    Raises:
        ValueError: if a dimension is symbolic.

    """
    ty = tensor_type(expr)
    shape = static_dims(ty.shape)
    if shape is None:
        raise ValueError(f"the gradient of {op} requires static shapes, got {ty}")
    return shape


def shape_in(op: str, expr: Expr, src: str, dst: str) -> tuple[int, ...]:
    """Return the static shape that a typed tensor has in another layout."""
    shape = convert_shape(static_shape(op, expr), parse_layout(src), parse_layout(dst))
    return tuple(dim for dim in shape if isinstance(dim, int))


def in_layout(expr: Expr, src: str, dst: str) -> Expr:
    """Return a tensor in another layout."""
    return expr if src == dst else layout_transform(expr, src, dst)


def in_dtype(grad: Expr, orig: Call) -> Expr:
    """Return the gradient in the element type of the first argument."""
    data = orig.args[0]
    return grad if tensor_type(orig).dtype == tensor_type(data).dtype else cast_like(grad, data)


def multiply_axis(expr: Expr, axis: int, rank: int, matrix: NDArray[np.float64], dtype: str) -> Expr:
    """Return a tensor with each vector along an axis multiplied by a matrix.

    `rank` is the number of dimensions of the tensor, and `dtype` its element type.
    """
    if matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix))):
        return expr
    to_end = [*(other for other in range(rank) if other != axis), axis]
    back = [to_end.index(other) for other in range(rank)]
    return transpose(dense(transpose(expr, to_end), const(matrix, dtype)), back)
