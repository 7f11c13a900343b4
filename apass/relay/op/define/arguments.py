"""Conversion of user arguments to attributes of operators."""

from collections.abc import Iterable, Sequence

from apass.relay.ir.expr import Constant, Expr, Tuple, TupleWrapper
from apass.relay.op.define.dims import ints

__all__ = ["Ints", "computed_expr", "static_ints", "tuple_of"]

Ints = int | Iterable[int] | Expr
"""One or several numbers. An expression that is not a constant selects the operator's `dyn` variant, if it has one."""


def computed_expr(value: object) -> Expr | None:
    """Return `value` if it is an expression that is not a constant, else None."""
    return value if isinstance(value, Expr) and not isinstance(value, Constant) else None


def static_ints(op: str, name: str, value: int | Iterable[int] | Expr) -> tuple[int, ...]:
    """Return one number, several numbers, or a constant as a tuple of ints.

    Raises:
        TypeError: if `value` is an expression that is not a constant.

    """
    if isinstance(value, Constant):
        return ints(value.data.numpy().reshape(-1).astype("int64").tolist())
    if isinstance(value, Expr):
        raise TypeError(f"{op}: {name} must be ints or a constant, got the expression {value!r}")
    return ints(value)


def tuple_of(op: str, data: Expr | TupleWrapper | Sequence[Expr] | Iterable[Expr]) -> Expr:
    """Return several tensors as one expression. An expression is returned as it is.

    Raises:
        ValueError: if `data` is empty.

    """
    if isinstance(data, Expr):
        return data
    fields = tuple(data)
    if not fields:
        raise ValueError(f"{op} needs at least one tensor, got none")
    return Tuple(fields)
