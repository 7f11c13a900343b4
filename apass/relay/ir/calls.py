"""Small questions that passes ask of a call, and small programs that they build."""

from typing import TypeVar

from apass.relay.expr import Call, Constant, Expr, Op, Var
from apass.relay.ir.attrs import Attrs
from apass.relay.make import const
from apass.relay.ty import TensorType, Type

__all__ = ["along_axis", "attrs_of", "call_op", "is_scalar", "known_type", "op_name", "scalar_like", "tensor_type"]

AttrsT = TypeVar("AttrsT", bound=Attrs)


def op_name(expr: Expr) -> str:
    """Return the name of the operator that an expression calls; nothing if it calls none."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else ""


def call_op(name: str, *args: Expr, **attrs: object) -> Call:
    """Return a call of the operator of the name."""
    op = Op.get(name)
    return Call(op, args, op.make_attrs(**attrs))


def attrs_of(call: Call, kind: type[AttrsT]) -> AttrsT:
    """Return the attributes of a call, which are known to be of a class.

    Raises:
        TypeError: if they are not.

    """
    if not isinstance(call.attrs, kind):
        raise TypeError(f"{call!r} has the attributes {call.attrs!r}, not {kind.__name__}")
    return call.attrs


def known_type(expr: Expr) -> Type | None:
    """Return the type of an expression, None if it has none: operators, constructors and global names never do."""
    if isinstance(expr, Var):
        return expr.type_annotation
    return expr.checked_type if isinstance(expr, Constant) else expr.checked_type_


def tensor_type(expr: Expr) -> TensorType:
    """Return the type of an expression, which is known to be a tensor.

    Raises:
        ValueError: if its type has not been inferred.
        TypeError: if it is no tensor.

    """
    ty = expr.checked_type
    if not isinstance(ty, TensorType):
        raise TypeError(f"{expr!r} is a {ty}, not a tensor")
    return ty


def scalar_like(value: float, like: Expr) -> Constant:
    """Return a scalar constant of the element type of a typed tensor."""
    return const(value, tensor_type(like).dtype)


def is_scalar(expr: Expr, value: float) -> bool:
    """Tell whether an expression is a constant all of whose elements are `value`."""
    return isinstance(expr, Constant) and expr.data.size > 0 and bool((expr.data.numpy() == value).all())


def along_axis(vector: Expr, axis: int, rank: int) -> Expr:
    """Return a vector with as many axes behind it as make it broadcast along `axis` of a tensor of the rank."""
    behind = rank - 1 - axis % rank
    return call_op("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector
