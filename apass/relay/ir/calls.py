"""Helpers of passes: queries on calls, and constructors of small expressions."""

from typing import TypeVar

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Constant, Expr, Op, Var, const
from apass.relay.ir.ty import TensorType, Type

__all__ = ["along_axis", "attrs_of", "call_op", "is_scalar", "known_type", "op_name", "scalar_like", "tensor_type"]

AttrsT = TypeVar("AttrsT", bound=Attrs)


def op_name(expr: Expr) -> str:
    """Return the name of the called operator, or `""` if `expr` is not a call of one."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else ""


def call_op(name: str, *args: Expr, **attrs: object) -> Call:
    """Return a call of the operator with this name."""
    op = Op.get(name)
    return Call(op, args, op.make_attrs(**attrs))


def attrs_of(call: Call, kind: type[AttrsT]) -> AttrsT:
    """Return the attributes of a call, checked to be of class `kind`.

    Raises:
        TypeError: if they are of another class.

    """
    if not isinstance(call.attrs, kind):
        raise TypeError(f"attributes of {call!r} must be {kind.__name__}, got {call.attrs!r}")
    return call.attrs


def known_type(expr: Expr) -> Type | None:
    """Return the type of an expression, or None if it has no type yet.

    Operators, constructors and global variables never have a type.
    """
    if isinstance(expr, Var):
        return expr.type_annotation
    return expr.checked_type if isinstance(expr, Constant) else expr.checked_type_


def tensor_type(expr: Expr) -> TensorType:
    """Return the type of an expression, checked to be a tensor type.

    Raises:
        ValueError: if the type has not been inferred.
        TypeError: if it is not a tensor type.

    """
    ty = expr.checked_type
    if not isinstance(ty, TensorType):
        raise TypeError(f"{expr!r} must be a tensor, got type {ty}")
    return ty


def scalar_like(value: float, like: Expr) -> Constant:
    """Return a scalar constant with the element type of a typed tensor."""
    return const(value, tensor_type(like).dtype)


def is_scalar(expr: Expr, value: float) -> bool:
    """Return whether `expr` is a constant whose elements all equal `value`."""
    return isinstance(expr, Constant) and expr.data.size > 0 and bool((expr.data.numpy() == value).all())


def along_axis(vector: Expr, axis: int, rank: int) -> Expr:
    """Return a vector with axes appended, to broadcast along `axis` of a tensor.

    `rank` is the rank of the tensor.
    """
    num_newaxis = rank - 1 - axis % rank
    return call_op("expand_dims", vector, axis=1, num_newaxis=num_newaxis) if num_newaxis else vector
