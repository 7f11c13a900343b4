"""What users may write for numbers in the attributes of operators."""

from collections.abc import Iterable, Sequence

from apass.relay.expr import Constant, Expr, Tuple
from apass.relay.op.define.dims import ints
from apass.relay.tuple_wrapper import TupleWrapper

__all__ = ["Ints", "computed", "static_ints", "tuple_of"]

Ints = int | Iterable[int] | Expr
"""What users may give for one or several numbers; an expression makes the call one of `dyn`, where there is such."""


def computed(given: object) -> Expr | None:
    """Return what is given if it is an expression whose value is not known now, else None."""
    return given if isinstance(given, Expr) and not isinstance(given, Constant) else None


def static_ints(op: str, name: str, given: int | Iterable[int] | Expr) -> tuple[int, ...]:
    """Return numbers that are given as one, as several, or as a constant.

    Raises:
        TypeError: if they are an expression that is not a constant.

    """
    if isinstance(given, Constant):
        return ints(given.data.numpy().reshape(-1).astype("int64").tolist())
    if isinstance(given, Expr):
        raise TypeError(f"{op}: {name} must be known now: ints or a constant, not {given!r}")
    return ints(given)


def tuple_of(op: str, data: Expr | TupleWrapper | Sequence[Expr] | Iterable[Expr]) -> Expr:
    """Return several tensors as one expression; one that is an expression already is taken as it is.

    Raises:
        ValueError: if there are none.

    """
    if isinstance(data, Expr):
        return data
    fields = tuple(data)
    if not fields:
        raise ValueError(f"{op} needs at least one tensor")
    return Tuple(fields)
