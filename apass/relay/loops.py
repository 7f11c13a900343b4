"""`while_loop`: builds a loop as a recursive function."""

from collections.abc import Callable, Sequence

from apass.relay.ir.expr import Expr, If, Let, Tuple, Var
from apass.relay.ir.function import Function
from apass.relay.ir.ty import Type

__all__ = ["while_loop"]


def while_loop(
    cond: Callable[..., Expr], loop_vars: Sequence[Expr], loop_bodies: Callable[..., Sequence[Expr]]
) -> Expr:
    """Return a recursive function that runs a loop.

    Call it with the initial values of the loop variables. It returns a tuple of their final values.

    Parameters:
        cond: builds the loop condition from the loop variables.
        loop_vars: variables whose names and types the loop variables copy, or typed expressions whose types they copy.
        loop_bodies: builds the next values of the loop variables from the current ones.

    >>> from apass.relay.interpreter.evaluate import evaluate
    >>> from apass.relay.ir.expr import const, var
    >>> count, total = var("count", "int32"), var("total", "int32")
    >>> def step(i, acc):
    ...     return i + const(1), acc + i
    >>> loop = while_loop(lambda i, acc: i < const(5), [count, total], step)
    >>> evaluate(loop(const(0), const(0)))
    (array(5, dtype=int32), array(10, dtype=int32))
    """
    loop = Var("while_loop")
    # Fresh variables: the caller's own may be bound elsewhere, and a variable is bound only once in a program.
    fresh = [_fresh_var(index, template) for index, template in enumerate(loop_vars)]
    body = If(cond(*fresh), loop(*loop_bodies(*fresh)), Tuple(fresh))
    return Let(loop, Function(fresh, body), loop)


def _fresh_var(index: int, template: Expr) -> Var:
    if isinstance(template, Var):
        return Var(template.name_hint, template.type_annotation)
    inferred: Type | None = template.checked_type_
    return Var(f"arg{index}", inferred)
