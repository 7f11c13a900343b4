"""Comparisons of two tensors, with numpy's broadcasting."""

import numpy as np

from apass.relay.ir.expr import Call, Expr
from apass.relay.op.define.binary import define_comparison

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "not_equal",
]

_EQUAL = define_comparison("equal", np.equal, "Whether the left equals the right, with broadcasting.")
_NOT_EQUAL = define_comparison("not_equal", np.not_equal, "Whether the left differs from the right, with broadcasting.")
_LESS = define_comparison("less", np.less, "Whether the left is less than the right, with broadcasting.")
_LESS_EQUAL = define_comparison(
    "less_equal", np.less_equal, "Whether the left is at most the right, with broadcasting."
)
_GREATER = define_comparison("greater", np.greater, "Whether the left is greater than the right, with broadcasting.")
_GREATER_EQUAL = define_comparison(
    "greater_equal", np.greater_equal, "Whether the left is at least the right, with broadcasting."
)


def equal(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs == rhs` for each element, with numpy's broadcasting."""
    return Call(_EQUAL, (lhs, rhs))


def not_equal(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs != rhs` for each element, with numpy's broadcasting."""
    return Call(_NOT_EQUAL, (lhs, rhs))


def less(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs < rhs` for each element, with numpy's broadcasting."""
    return Call(_LESS, (lhs, rhs))


def less_equal(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs <= rhs` for each element, with numpy's broadcasting."""
    return Call(_LESS_EQUAL, (lhs, rhs))


def greater(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs > rhs` for each element, with numpy's broadcasting."""
    return Call(_GREATER, (lhs, rhs))


def greater_equal(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs >= rhs` for each element, with numpy's broadcasting."""
    return Call(_GREATER_EQUAL, (lhs, rhs))
