"""What the tests of single operators share: the value of a call of constants, and the refusal of one."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, Op
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.make import const, var
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import Dim, IncompleteType, TupleType, Type

__all__ = ["bools", "floats", "lists", "numbers", "refusal", "result_type", "tensor", "value", "values"]

Numbers: TypeAlias = npt.NDArray[Any]


def numbers(given: npt.ArrayLike) -> Expr:
    """Return a constant of int32, of any nesting."""
    return const(given, "int32")


def floats(given: npt.ArrayLike) -> Expr:
    """Return a constant of float32."""
    return const(given, "float32")


def bools(given: npt.ArrayLike) -> Expr:
    """Return a constant of bool."""
    return const(given, "bool")


def tensor(*shape: Dim, dtype: str = "float32") -> Expr:
    """Return a variable of a tensor type."""
    return var("x", shape=shape, dtype=dtype)


def values(expr: Expr | TupleWrapper) -> list[Numbers]:
    """Return the fields of the value of an expression that is a tuple."""
    made = evaluate(expr.astuple() if isinstance(expr, TupleWrapper) else expr)
    assert isinstance(made, tuple)
    return [np.asarray(one) for one in made]


def value(expr: Expr) -> Numbers:
    """Return the value of an expression that is a tensor."""
    made = evaluate(expr)
    assert isinstance(made, np.ndarray)
    return np.asarray(made)


def lists(expr: Expr) -> object:
    """Return the value of an expression that is a tensor as lists of numbers."""
    return value(expr).tolist()


def _type(expr: Expr) -> Type:
    return TupleType(map(_type, expr.children)) if expr.children else expr.checked_type


def result_type(expr: Expr | TupleWrapper) -> str:
    """Return the type that the relation tells of the result of a call of variables, as text; `?` if it waits."""
    call = expr.astuple() if isinstance(expr, TupleWrapper) else expr
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    assert call.op.relation is not None
    told = call.op.relation([*map(_type, call.args), IncompleteType()], call.attrs)
    return "?" if told is None else str(told[-1])


def refusal(expr: Expr | TupleWrapper) -> str:
    """Return the message with which the relation refuses a call of variables."""
    with pytest.raises(TypeInferenceError) as caught:
        result_type(expr)
    return str(caught.value)
