"""`while_loop`: a loop, written as the recursive function that it is in Relay."""

from collections.abc import Callable, Sequence

from apass.relay.expr import Expr, If, Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.ty import Type

__all__ = ["while_loop"]


def while_loop(
    cond: Callable[..., Expr], loop_vars: Sequence[Expr], loop_bodies: Callable[..., Sequence[Expr]]
) -> Expr:
    """Return the function that a loop is: called with the first values of the variables, it gives a tuple of the last.

    Parameters:
        cond: makes of the variables the expression that tells whether to go on.
        loop_vars: the variables, whose names and types those of the loop have; or expressions of their types.
        loop_bodies: makes of the variables their next values.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.make import const, var
    >>> count, total = var("count", "int32"), var("total", "int32")
    >>> def step(i, acc):
    ...     return i + const(1), acc + i
    >>> loop = while_loop(lambda i, acc: i < const(5), [count, total], step)
    >>> evaluate(loop(const(0), const(0)))
    (array(5, dtype=int32), array(10, dtype=int32))
    """
    loop = Var("while_loop")
    fresh = [_fresh(place, one) for place, one in enumerate(loop_vars)]
    body = If(cond(*fresh), loop(*loop_bodies(*fresh)), Tuple(fresh))
    return Let(loop, Function(fresh, body), loop)


def _fresh(place: int, given: Expr) -> Var:
    if isinstance(given, Var):
        return Var(given.name_hint, given.type_annotation)
    known: Type | None = given.checked_type_
    return Var(f"arg{place}", known)
