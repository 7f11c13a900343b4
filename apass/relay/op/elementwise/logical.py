"""Operators on truth values and on bits."""

import numpy as np

from apass.relay.ir.expr import Call, Expr
from apass.relay.op.define.binary import define_binary
from apass.relay.op.define.unary import define_unary

__all__ = [
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "left_shift",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "right_shift",
]

_LOGICAL_AND = define_binary("logical_and", np.logical_and, "Whether both operands are true, with broadcasting.")
_LOGICAL_OR = define_binary("logical_or", np.logical_or, "Whether at least one operand is true, with broadcasting.")
_LOGICAL_XOR = define_binary("logical_xor", np.logical_xor, "Whether exactly one operand is true, with broadcasting.")
_BITWISE_AND = define_binary("bitwise_and", np.bitwise_and, "The bits set in both operands, with broadcasting.")
_BITWISE_OR = define_binary("bitwise_or", np.bitwise_or, "The bits set in at least one operand, with broadcasting.")
_BITWISE_XOR = define_binary("bitwise_xor", np.bitwise_xor, "The bits set in exactly one operand, with broadcasting.")
_LEFT_SHIFT = define_binary(
    "left_shift", np.left_shift, "The left operand shifted left by the right one, with broadcasting."
)
_RIGHT_SHIFT = define_binary(
    "right_shift", np.right_shift, "The left operand shifted right by the right one, with broadcasting."
)
_LOGICAL_NOT = define_unary("logical_not", np.logical_not, "Whether each element is false.", level=4)
_BITWISE_NOT = define_unary("bitwise_not", np.bitwise_not, "The inverted bits of each element.", level=4)


def logical_and(lhs: Expr, rhs: Expr) -> Call:
    """Return whether both operands are true, with numpy's broadcasting."""
    return Call(_LOGICAL_AND, (lhs, rhs))


def logical_or(lhs: Expr, rhs: Expr) -> Call:
    """Return whether at least one operand is true, with numpy's broadcasting."""
    return Call(_LOGICAL_OR, (lhs, rhs))


def logical_xor(lhs: Expr, rhs: Expr) -> Call:
    """Return whether exactly one operand is true, with numpy's broadcasting."""
    return Call(_LOGICAL_XOR, (lhs, rhs))


def bitwise_and(lhs: Expr, rhs: Expr) -> Call:
    """Return the bits set in both operands, with numpy's broadcasting."""
    return Call(_BITWISE_AND, (lhs, rhs))


def bitwise_or(lhs: Expr, rhs: Expr) -> Call:
    """Return the bits set in at least one operand, with numpy's broadcasting."""
    return Call(_BITWISE_OR, (lhs, rhs))


def bitwise_xor(lhs: Expr, rhs: Expr) -> Call:
    """Return the bits set in exactly one operand, with numpy's broadcasting."""
    return Call(_BITWISE_XOR, (lhs, rhs))


def left_shift(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs` shifted left by `rhs` bits, with numpy's broadcasting."""
    return Call(_LEFT_SHIFT, (lhs, rhs))


def right_shift(lhs: Expr, rhs: Expr) -> Call:
    """Return `lhs` shifted right by `rhs` bits, with numpy's broadcasting."""
    return Call(_RIGHT_SHIFT, (lhs, rhs))


def logical_not(data: Expr) -> Call:
    """Return whether each element is false."""
    return Call(_LOGICAL_NOT, (data,))


def bitwise_not(data: Expr) -> Call:
    """Return the inverted bits of each element."""
    return Call(_BITWISE_NOT, (data,))
