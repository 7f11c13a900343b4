"""Whether the sign of a zero matters.

`x + 0.0` is `x`, except that -0.0 becomes 0.0. So it is in onnxruntime for the second operand of a Where, because it
adds the two selections: `Where(True, -0.0, y)` is 0.0 there, and -0.0 by the specification.
"""

from collections.abc import Iterable
from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.facts import Facts, is_onnx

__all__ = ["is_zero_sign_lost"]

_BLIND: Final = frozenset(
    {"Abs", "Cos", "Cosh", "Equal", "Exp", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Sigmoid", "Softmax"}
)
"""Operators whose result is the same for -0.0 and 0.0."""

_NEVER_NEGATIVE: Final = frozenset({"Abs", "Cosh", "Exp", "Sigmoid", "Softmax", "Softplus"})
"""Operators whose result is not -0.0."""


def is_zero_sign_lost(node: ir.Node, facts: Facts, operands: Iterable[ir.Value | None]) -> bool:
    """Return whether nothing depends on the signs of zeros in the result of a node.

    Either its type has one zero, the operands have no negative zeros, or all users ignore the sign.
    """
    result = node.outputs[0]
    dtype = facts.dtype(result)
    if dtype is not None and (dtype.is_integer() or dtype in (ir.DataType.BOOL, ir.DataType.STRING)):
        return True
    sources = [None if value is None else value.producer() for value in operands]
    if all(source is not None and is_onnx(source) and source.op_type in _NEVER_NEGATIVE for source in sources):
        return True
    uses = result.uses()
    return not result.is_graph_output() and all(is_onnx(use.node) and use.node.op_type in _BLIND for use in uses)
