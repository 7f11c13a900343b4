"""Elementwise logarithms, exponentials, roots, rounding and signs."""

import math

import numpy as np

from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.unary import define_predicate, define_unary

__all__ = [
    "abs",
    "ceil",
    "erf",
    "exact_erf",
    "exp",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "negative",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sqrt",
    "trunc",
]


def exact_erf(data: Array) -> Array:
    """Return the error function of each element, exact to the element type."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(data))


def _rsqrt(data: Array) -> Array:
    return np.asarray(np.reciprocal(np.sqrt(data)))


def _sigmoid(data: Array) -> Array:
    return np.asarray(np.reciprocal(1 + np.exp(np.negative(data))))


def _round(data: Array) -> Array:
    # As in C, halves round away from zero; numpy's round takes them to the even neighbour.
    whole = np.trunc(data)
    return np.asarray(whole + np.where(np.abs(np.subtract(data, whole)) >= 0.5, np.sign(data), 0))


_LOG = define_unary("log", np.log, "The natural logarithm of each element.")
_LOG2 = define_unary("log2", np.log2, "The logarithm to the base 2 of each element.")
_LOG10 = define_unary("log10", np.log10, "The logarithm to the base 10 of each element.")
_EXP = define_unary("exp", np.exp, "The exponential of each element.")
_ERF = define_unary("erf", exact_erf, "The error function of each element.")
_SQRT = define_unary("sqrt", np.sqrt, "The square root of each element.")
_RSQRT = define_unary("rsqrt", _rsqrt, "The reciprocal of the square root of each element.")
_SIGMOID = define_unary("sigmoid", _sigmoid, "The logistic function of each element: 1 / (1 + exp(-x)).")
_FLOOR = define_unary("floor", np.floor, "The greatest integer not above each element.", level=3)
_CEIL = define_unary("ceil", np.ceil, "The least integer not below each element.", level=3)
_TRUNC = define_unary("trunc", np.trunc, "Each element, truncated towards zero.", level=3)
_ROUND = define_unary("round", _round, "The integer nearest to each element, halves away from zero.", level=3)
_ABS = define_unary("abs", np.abs, "The absolute value of each element.", level=3)
_SIGN = define_unary("sign", np.sign, "The sign of each element: -1, 0 or 1.", level=3)
_NEGATIVE = define_unary("negative", np.negative, "The negative of each element.", level=3)
_ISNAN = define_predicate("isnan", np.isnan, "Whether each element is not a number.")
_ISFINITE = define_predicate("isfinite", np.isfinite, "Whether each element is finite.")
_ISINF = define_predicate("isinf", np.isinf, "Whether each element is infinite.")


def log(data: Expr) -> Call:
    """Return the natural logarithm of each element."""
    return Call(_LOG, (data,))


def log2(data: Expr) -> Call:
    """Return the logarithm to the base 2 of each element."""
    return Call(_LOG2, (data,))


def log10(data: Expr) -> Call:
    """Return the logarithm to the base 10 of each element."""
    return Call(_LOG10, (data,))


def exp(data: Expr) -> Call:
    """Return the exponential of each element."""
    return Call(_EXP, (data,))


def erf(data: Expr) -> Call:
    """Return the error function of each element."""
    return Call(_ERF, (data,))


def sqrt(data: Expr) -> Call:
    """Return the square root of each element."""
    return Call(_SQRT, (data,))


def rsqrt(data: Expr) -> Call:
    """Return the reciprocal of the square root of each element."""
    return Call(_RSQRT, (data,))


def sigmoid(data: Expr) -> Call:
    """Return the logistic function of each element: 1 / (1 + exp(-x))."""
    return Call(_SIGMOID, (data,))


def floor(data: Expr) -> Call:
    """Return the greatest integer not above each element."""
    return Call(_FLOOR, (data,))


def ceil(data: Expr) -> Call:
    """Return the least integer not below each element."""
    return Call(_CEIL, (data,))


def trunc(data: Expr) -> Call:
    """Return each element, truncated towards zero."""
    return Call(_TRUNC, (data,))


def round(data: Expr) -> Call:
    """Return the integer nearest to each element, halves away from zero."""
    return Call(_ROUND, (data,))


def abs(data: Expr) -> Call:
    """Return the absolute value of each element."""
    return Call(_ABS, (data,))


def sign(data: Expr) -> Call:
    """Return the sign of each element: -1, 0 or 1."""
    return Call(_SIGN, (data,))


def negative(data: Expr) -> Call:
    """Return the negative of each element."""
    return Call(_NEGATIVE, (data,))


def isnan(data: Expr) -> Call:
    """Return whether each element is not a number."""
    return Call(_ISNAN, (data,))


def isfinite(data: Expr) -> Call:
    """Return whether each element is finite."""
    return Call(_ISFINITE, (data,))


def isinf(data: Expr) -> Call:
    """Return whether each element is infinite."""
    return Call(_ISINF, (data,))
