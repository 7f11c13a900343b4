"""Constant expressions and their values, there and back; for FoldConstant."""

from collections.abc import Iterable

import numpy as np

from apass.relay.expr import Call, Constant, Expr, Op, Tuple
from apass.relay.interpreter.instructions import kernel_value
from apass.relay.interpreter.registers import kernel_of
from apass.relay.interpreter.values import Value, is_array
from apass.relay.ir.calls import op_name

__all__ = ["computed", "marked_as", "unmarked", "value_of"]


def unmarked(expr: Expr) -> Expr:
    """Return what an `on_device` marks, or the expression itself: the mark computes nothing."""
    return expr.children[1] if op_name(expr) == "on_device" else expr


def marked_as(mark: Expr, expr: Expr) -> Expr:
    """Return an expression with the `on_device` that `mark` is, unless it has one of its own."""
    if not isinstance(mark, Call) or op_name(expr) == "on_device":
        return expr
    return Call(mark.op, (expr,), mark.attrs, span=expr.span)


def value_of(expr: Expr) -> Value:
    """Return the value of a `Constant`, or of a `Tuple` of constants; either may be marked."""
    expr = unmarked(expr)
    return expr.data.numpy() if isinstance(expr, Constant) else tuple([value_of(one) for one in expr.children])


def computed(call: Call, op: Op, args: Iterable[Value]) -> Expr | None:
    """Return what an operator gives for the arguments of a call, as an expression that stands where the call does.

    None if the kernel fails: that is for those to see who run the program. What numpy warns of is a value.
    """
    try:
        with np.errstate(all="ignore"):
            value = kernel_value(kernel_of(op, call.attrs)(*args))
    except Exception:
        return None
    return _to_expr(value, call)


def _to_expr(value: Value, origin: Expr) -> Expr | None:
    if is_array(value):
        value.flags.writeable = False  # nobody else has it, so it need not be copied
        return Constant(value, span=origin.span)
    if not isinstance(value, tuple):
        return None
    fields = [_to_expr(one, origin) for one in value]
    return Tuple([one for one in fields if one is not None], span=origin.span)
