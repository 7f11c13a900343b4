"""What a program is made of: `all_dtypes` and `list_op_types`."""

from collections.abc import Iterator

from apass.relay.expr import Call, Constant, Expr, Op, Var
from apass.relay.ir.post_order import post_order
from apass.relay.ty import FuncType, RefType, TensorType, TupleType, Type

__all__ = ["all_dtypes", "list_op_types"]


def all_dtypes(expr: Expr) -> set[str]:
    """Return the element types of all tensors in an expression that has types; without them, of its leaves.

    >>> from apass.relay.make import const
    >>> sorted(all_dtypes(const(1)))
    ['int32']
    """
    return {name for node in post_order(expr) for ty in _types_of(node) for name in _dtypes(ty)}


def list_op_types(expr: Expr) -> list[str]:
    """Return the names of the operators that are called, each once, in the order in which the walk meets them."""
    calls = (node.op for node in post_order(expr) if isinstance(node, Call))
    return list(dict.fromkeys(op.name for op in calls if isinstance(op, Op)))


def _types_of(node: Expr) -> list[Type]:
    if isinstance(node, Constant):
        return [node.checked_type]
    written = node.type_annotation if isinstance(node, Var) else None
    return [ty for ty in (node.checked_type_, written) if ty is not None]


def _dtypes(ty: Type) -> Iterator[str]:
    if isinstance(ty, TensorType):
        yield ty.dtype
    elif isinstance(ty, TupleType):
        for one in ty.fields:
            yield from _dtypes(one)
    elif isinstance(ty, FuncType):
        for one in (*ty.arg_types, ty.ret_type):
            yield from _dtypes(one)
    elif isinstance(ty, RefType):
        yield from _dtypes(ty.value)
