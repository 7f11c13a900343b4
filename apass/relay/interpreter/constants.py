"""Conversion between constant expressions and values, for FoldConstant."""

from collections.abc import Iterable

import numpy as np

from apass.relay.interpreter.instructions import kernel_value
from apass.relay.interpreter.registers import kernel_of
from apass.relay.interpreter.values import Value, is_array
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import Call, Constant, Expr, Op, Tuple

__all__ = ["computed", "marked_as", "unmarked", "value_of"]


def unmarked(expr: Expr) -> Expr:
    """Return the argument of an `on_device` call, or the expression itself."""
    return expr.children[1] if op_name(expr) == "on_device" else expr


def marked_as(mark: Expr, expr: Expr) -> Expr:
    """Return an expression wrapped in the `on_device` call `mark`, unless it has one."""
    if not isinstance(mark, Call) or op_name(expr) == "on_device":
        return expr
    return Call(mark.op, (expr,), mark.attrs, span=expr.span)


def value_of(expr: Expr) -> Value:
    """Return the value of a `Constant` or `Tuple` of constants, in `on_device` or not."""
    expr = unmarked(expr)
    return expr.data.numpy() if isinstance(expr, Constant) else tuple([value_of(child) for child in expr.children])


def computed(call: Call, op: Op, args: Iterable[Value]) -> Expr | None:
    """Return the result of an operator as a constant expression.

    If the kernel fails, return None, so that the error is raised when the program runs. Numpy's floating-point warnings
    are ignored: infinities and NaN are values.
    """
    try:
        with np.errstate(all="ignore"):
            value = kernel_value(kernel_of(op, call.attrs)(*args))
    except Exception:
        return None
    return _to_expr(value, call)


def _to_expr(value: Value, origin: Expr) -> Expr | None:
    if is_array(value):
        value.flags.writeable = False  # the array is not shared, so `Constant` need not copy it
        return Constant(value, span=origin.span)
    if not isinstance(value, tuple):
        return None
    fields = [_to_expr(field, origin) for field in value]
    return Tuple([field for field in fields if field is not None], span=origin.span)
