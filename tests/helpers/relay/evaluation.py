"""Helpers for tests of the evaluator: small expressions, and comparable values."""

from collections.abc import Callable

import numpy as np

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Expr, If
from apass.relay.function import Function
from apass.relay.interpreter.values import ADTValue, Value
from apass.relay.ir.expr import const, var
from apass.relay.op.elementwise.arithmetic import subtract
from apass.relay.op.elementwise.compare import equal
from apass.relay.ty import GlobalTypeVar, TypeVar

__all__ = ["CONS", "NIL", "ONE", "F", "N", "X", "Y", "count_down", "plain"]

ONE = const(1)
X, Y, N, F = var("x", "int32"), var("y", "int32"), var("n", "int32"), var("f")
LIST = GlobalTypeVar("List")
NIL = Constructor("Nil", [], LIST)
CONS = Constructor("Cons", [TypeVar("a")], LIST)


def plain(value: Value) -> object:
    """Return a value as numbers, lists and names.

    Numbers and lists replace arrays. Names replace values that have only an identity.
    """
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(plain(field) for field in value)
    if isinstance(value, ADTValue):
        return (value.constructor.name_hint, *(plain(field) for field in value.fields))
    return repr(value)


def count_down(function: Expr, at_end: Expr, further: Callable[[Expr], Expr]) -> Function:
    """Return a function of `n`: `at_end` at 0, else `further` of a recursive call.

    The recursive call is that with `n - 1`.
    """
    below = Call(function, [subtract(N, ONE)])
    return Function([N], If(equal(N, const(0)), at_end, further(below)))
