"""Elementwise trigonometric and hyperbolic operators and their inverses."""

import numpy as np

from apass.relay.ir.expr import Call, Expr
from apass.relay.op.define.unary import define_unary

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "sin",
    "sinh",
    "tan",
    "tanh",
]

_TAN = define_unary("tan", np.tan, "The tangent of each element.")
_COS = define_unary("cos", np.cos, "The cosine of each element.")
_COSH = define_unary("cosh", np.cosh, "The hyperbolic cosine of each element.")
_SIN = define_unary("sin", np.sin, "The sine of each element.")
_SINH = define_unary("sinh", np.sinh, "The hyperbolic sine of each element.")
_ACOS = define_unary("acos", np.arccos, "The inverse cosine of each element.")
_ACOSH = define_unary("acosh", np.arccosh, "The inverse hyperbolic cosine of each element.")
_ASIN = define_unary("asin", np.arcsin, "The inverse sine of each element.")
_ASINH = define_unary("asinh", np.arcsinh, "The inverse hyperbolic sine of each element.")
_ATAN = define_unary("atan", np.arctan, "The inverse tangent of each element.")
_ATANH = define_unary("atanh", np.arctanh, "The inverse hyperbolic tangent of each element.")
_TANH = define_unary("tanh", np.tanh, "The hyperbolic tangent of each element.")


def tan(data: Expr) -> Call:
    """Return the tangent of each element."""
    return Call(_TAN, (data,))


def cos(data: Expr) -> Call:
    """Return the cosine of each element."""
    return Call(_COS, (data,))


def cosh(data: Expr) -> Call:
    """Return the hyperbolic cosine of each element."""
    return Call(_COSH, (data,))


def sin(data: Expr) -> Call:
    """Return the sine of each element."""
    return Call(_SIN, (data,))


def sinh(data: Expr) -> Call:
    """Return the hyperbolic sine of each element."""
    return Call(_SINH, (data,))


def acos(data: Expr) -> Call:
    """Return the inverse cosine of each element."""
    return Call(_ACOS, (data,))


def acosh(data: Expr) -> Call:
    """Return the inverse hyperbolic cosine of each element."""
    return Call(_ACOSH, (data,))


def asin(data: Expr) -> Call:
    """Return the inverse sine of each element."""
    return Call(_ASIN, (data,))


def asinh(data: Expr) -> Call:
    """Return the inverse hyperbolic sine of each element."""
    return Call(_ASINH, (data,))


def atan(data: Expr) -> Call:
    """Return the inverse tangent of each element."""
    return Call(_ATAN, (data,))


def atanh(data: Expr) -> Call:
    """Return the inverse hyperbolic tangent of each element."""
    return Call(_ATANH, (data,))


def tanh(data: Expr) -> Call:
    """Return the hyperbolic tangent of each element."""
    return Call(_TANH, (data,))
