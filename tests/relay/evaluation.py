"""What tests of the evaluator share: small expressions, and values to be compared."""

from collections.abc import Callable

import numpy as np

from apass.relay.adt import Constructor
from apass.relay.expr import Call, Expr, If
from apass.relay.function import Function
from apass.relay.interpreter.values import ADTValue, Value
from apass.relay.make import const, var
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
    """Return a value with numbers and lists in the places of arrays, and names for what only has an identity."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return tuple(plain(one) for one in value)
    if isinstance(value, ADTValue):
        return (value.constructor.name_hint, *(plain(one) for one in value.fields))
    return repr(value)


def count_down(function: Expr, at_end: Expr, further: Callable[[Expr], Expr]) -> Function:
    """Return a function of `n` that is `at_end` at 0, and `further` of the call for `n - 1` before."""
    below = Call(function, [subtract(N, ONE)])
    return Function([N], If(equal(N, const(0)), at_end, further(below)))
