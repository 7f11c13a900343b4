"""Helpers of the operator tests: constants, values of calls, and error messages."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, Op
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.expr import TupleWrapper, const, var
from apass.relay.ty import Dim, IncompleteType, TupleType, Type

__all__ = ["bools", "floats", "lists", "numbers", "refusal", "result_type", "tensor", "value", "values"]

Numbers: TypeAlias = npt.NDArray[Any]


def numbers(value: npt.ArrayLike) -> Expr:
    """Return a constant of int32."""
    return const(value, "int32")


def floats(value: npt.ArrayLike) -> Expr:
    """Return a constant of float32."""
    return const(value, "float32")


def bools(value: npt.ArrayLike) -> Expr:
    """Return a constant of bool."""
    return const(value, "bool")


def tensor(*shape: Dim, dtype: str = "float32") -> Expr:
    """Return a variable of a tensor type."""
    return var("x", shape=shape, dtype=dtype)


def values(expr: Expr | TupleWrapper) -> list[Numbers]:
    """Return the fields of the value of an expression that evaluates to a tuple."""
    result = evaluate(expr.astuple() if isinstance(expr, TupleWrapper) else expr)
    assert isinstance(result, tuple)
    return [np.asarray(field) for field in result]


def value(expr: Expr) -> Numbers:
    """Return the value of an expression that evaluates to a tensor."""
    result = evaluate(expr)
    assert isinstance(result, np.ndarray)
    return np.asarray(result)


def lists(expr: Expr) -> object:
    """Return the value of an expression that evaluates to a tensor, as nested lists."""
    return value(expr).tolist()


def _type(expr: Expr) -> Type:
    return TupleType(map(_type, expr.children)) if expr.children else expr.checked_type


def result_type(expr: Expr | TupleWrapper) -> str:
    """Return the result type of a call of variables, as text.

    It is the type that the relation of the operator returns, or `?` if the relation waits for more types.
    """
    call = expr.astuple() if isinstance(expr, TupleWrapper) else expr
    assert isinstance(call, Call)
    assert isinstance(call.op, Op)
    assert call.op.relation is not None
    types = call.op.relation([*map(_type, call.args), IncompleteType()], call.attrs)
    return "?" if types is None else str(types[-1])


def refusal(expr: Expr | TupleWrapper) -> str:
    """Return the message of the error that the relation raises for a call."""
    with pytest.raises(TypeInferenceError) as caught:
        result_type(expr)
    return str(caught.value)
