"""Helpers of the gradients of operators: constants, shapes, gradients of zero."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from apass.relay.ir.calls import scalar_like, tensor_type
from apass.relay.ir.expr import Call, Expr, TupleGetItem
from apass.relay.ir.ty import TupleType
from apass.relay.op.define.dims import static_dims
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.convert import zeros_like

__all__ = [
    "Derivative",
    "fields_of",
    "rank_of",
    "register_derivative",
    "register_zero",
    "scaled",
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
