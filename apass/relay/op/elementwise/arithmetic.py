"""Arithmetic of two tensors, with numpy's broadcasting; integers divide as in C."""

import numpy as np

from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.binary import define_binary

__all__ = [
    "add",
    "divide",
    "floor_divide",
    "floor_mod",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "power",
    "subtract",
    "trunc_divide",
    "trunc_mod",
]


def _divide(lhs: Array, rhs: Array) -> Array:
    if not np.issubdtype(lhs.dtype, np.integer):
        return np.asarray(np.true_divide(lhs, rhs))
    # numpy has no truncating division of integers. Without the remainder, rounding down is exact.
    return np.asarray(np.floor_divide(np.subtract(lhs, np.fmod(lhs, rhs)), rhs))


def _trunc_divide(lhs: Array, rhs: Array) -> Array:
    return np.trunc(_divide(lhs, rhs)).astype(lhs.dtype, copy=False)


def _floor_divide(lhs: Array, rhs: Array) -> Array:
    if np.issubdtype(lhs.dtype, np.integer):
        return np.asarray(np.floor_divide(lhs, rhs))
    return np.asarray(np.floor(np.true_divide(lhs, rhs)))


def _power(lhs: Array, rhs: Array) -> Array:
    # numpy raises for negative powers of integers; C computes them in floating point and truncates.
    if np.issubdtype(lhs.dtype, np.signedinteger) and bool(np.any(np.less(rhs, 0))):
        return np.asarray(np.power(lhs.astype("float64"), rhs))
    return np.asarray(np.power(lhs, rhs))


_ADD = define_binary("add", np.add, "The sum, with broadcasting.", level=1)
_SUBTRACT = define_binary("subtract", np.subtract, "The difference, with broadcasting.", level=1)
_MULTIPLY = define_binary("multiply", np.multiply, "The product, with broadcasting.", level=1)
_DIVIDE = define_binary(
    "divide", _divide, "The quotient, with broadcasting; integers are truncated towards zero.", level=1
)
_FLOOR_DIVIDE = define_binary("floor_divide", _floor_divide, "The quotient rounded down, with broadcasting.", level=1)
_MOD = define_binary("mod", np.fmod, "The remainder of a truncated quotient, with broadcasting.", level=1)
_FLOOR_MOD = define_binary("floor_mod", np.mod, "The remainder of a quotient rounded down, with broadcasting.", level=1)
_TRUNC_DIVIDE = define_binary("trunc_divide", _trunc_divide, "The quotient, truncated towards zero.", level=1)
_TRUNC_MOD = define_binary("trunc_mod", np.fmod, "The remainder of a truncated quotient, with broadcasting.", level=1)
_POWER = define_binary("power", _power, "The power, with broadcasting.")
_MAXIMUM = define_binary("maximum", np.maximum, "The greater of the two, with broadcasting.")
_MINIMUM = define_binary("minimum", np.minimum, "The lesser of the two, with broadcasting.")


def add(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs + rhs`, with numpy's broadcasting."""
    return Call(_ADD, (lhs, rhs))


def subtract(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs - rhs`, with numpy's broadcasting."""
    return Call(_SUBTRACT, (lhs, rhs))


def multiply(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs * rhs`, with numpy's broadcasting."""
    return Call(_MULTIPLY, (lhs, rhs))


def divide(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs / rhs`, with numpy's broadcasting.

    The quotient of integers is truncated towards zero.
    """
    return Call(_DIVIDE, (lhs, rhs))


def floor_divide(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs / rhs` rounded down, with numpy's broadcasting."""
    return Call(_FLOOR_DIVIDE, (lhs, rhs))


def mod(lhs: Expr, rhs: Expr) -> Call:
    """Return the remainder of `trunc_divide`, with numpy's broadcasting.

    It has the sign of `lhs`, as in C.
    """
    return Call(_MOD, (lhs, rhs))


def floor_mod(lhs: Expr, rhs: Expr) -> Call:
    """Return the remainder of `floor_divide`, with numpy's broadcasting.

    It has the sign of `rhs`, as in Python.
    """
    return Call(_FLOOR_MOD, (lhs, rhs))


def trunc_divide(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs / rhs` truncated towards zero, with numpy's broadcasting."""
    return Call(_TRUNC_DIVIDE, (lhs, rhs))


def trunc_mod(lhs: Expr, rhs: Expr) -> Call:
    """Return the remainder of `trunc_divide`, with numpy's broadcasting.

    It has the sign of `lhs`, as in C.
    """
    return Call(_TRUNC_MOD, (lhs, rhs))


def power(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs` to the power of `rhs`, with numpy's broadcasting."""
    return Call(_POWER, (lhs, rhs))


def maximum(lhs: Expr, rhs: Expr) -> Call:
    """Return the greater of `lhs` and `rhs`, with numpy's broadcasting."""
    return Call(_MAXIMUM, (lhs, rhs))


def minimum(lhs: Expr, rhs: Expr) -> Call:
    """Return the lesser of `lhs` and `rhs`, with numpy's broadcasting."""
    return Call(_MINIMUM, (lhs, rhs))
