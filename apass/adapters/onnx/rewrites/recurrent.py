"""Operands of LSTM, GRU and RNN that are what is assumed without them."""

from typing import Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts, is_onnx

__all__ = ["RECURRENT"]

MAX_DEPTH: Final = 16
"""Maximum number of nodes between a value and the constants that it consists of."""

BIAS: Final = 3
"""The index of the operand with the bias."""

INITIAL: Final = range(5, 7)
"""The indices of the operands with the initial states."""

_MOVING: Final = frozenset(
    {"Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile"}
    | {"Transpose", "Unsqueeze"}
)
"""Operators whose result has only elements of the first operand."""


def _is_zero(value: ir.Value | None, facts: Facts, depth: int = MAX_DEPTH) -> bool:
    """Return whether all elements of a value are 0.0, however many they are."""
    array = facts.constant(value)
    if array is not None:
        return array.dtype.kind == "f" and not array.any() and not np.signbit(array).any()
    node = None if value is None else value.producer()
    if node is None or not depth or not is_onnx(node):
        return False
    if node.op_type == "ConstantOfShape":
        tensor = attributes(node).get("value")
        return tensor is None or not tensor.numpy().view(np.uint8).any()
    if node.op_type == "Concat":
        return all(_is_zero(item, facts, depth - 1) for item in node.inputs)
    return node.op_type in _MOVING and _is_zero(node.inputs[0], facts, depth - 1)


def _drop_zeros(node: ir.Node, context: Context) -> bool:
    """Leave out initial states and a bias of zeros."""
    optional = (BIAS, *INITIAL)
    found = [index for index in optional if index < len(node.inputs) and _is_zero(node.inputs[index], context.facts)]
    for index in found:
        context.editor.set_input(node, index, None)
    return bool(found)


RECURRENT: Final[Rules] = dict.fromkeys(("GRU", "LSTM", "RNN"), (_drop_zeros,))
"""Rules that keep all bits."""
