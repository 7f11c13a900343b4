"""Elementwise comparisons, logic and selection."""

from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import binary, unary
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Expr

__all__ = ["TABLE"]


def where(node: Node) -> Expr:
    """Return the second input where the first is true, and the third elsewhere."""
    return op.where(node[0], node[1], node[2])


def is_infinite(node: Node) -> Expr:
    """Return whether each element is infinite with an accepted sign."""
    positive, negative = node.integer("detect_positive", 1), node.integer("detect_negative", 1)
    if positive and negative:
        return op.isinf(node[0])
    # With neither sign, the result is false everywhere, in the shape of the data.
    if not positive and not negative:
        return op.logical_and(op.isinf(node[0]), op.logical_not(op.isinf(node[0])))
    return op.equal(node[0], node.constant(np.inf if positive else -np.inf, node[0]))


TABLE: Final[Table] = {
    ("", "And", 1): binary(op.logical_and),
    ("", "Equal", 1): binary(op.equal),
    ("", "Greater", 1): binary(op.greater),
    ("", "GreaterOrEqual", 12): binary(op.greater_equal),
    ("", "IsInf", 10): is_infinite,
    ("", "IsNaN", 9): unary(op.isnan),
    ("", "Less", 1): binary(op.less),
    ("", "LessOrEqual", 12): binary(op.less_equal),
    ("", "Not", 1): unary(op.logical_not),
    ("", "Or", 1): binary(op.logical_or),
    ("", "Where", 9): where,
    ("", "Xor", 1): binary(op.logical_xor),
}
"""The converters of this module."""
