"""Quantized weights that are spelled out become DequantizeLinear again."""

from typing import Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import constant_tensor
from apass.adapters.onnx.rewrites.merging import is_used_once, producer

__all__ = ["QUANTIZATION"]

AXIS_SINCE: Final = 13
"""The version of the operator set in which DequantizeLinear got an axis."""

_QUANTIZED: Final = frozenset({ir.DataType.INT8, ir.DataType.UINT8})


def _to_dequantize(node: ir.Node, context: Context) -> bool:
    """Replace the product of a scale and of cast int8 weights.

    Both compute `float(weight) * scale`, so that all bits are kept.
    """
    facts = context.facts
    if facts.version < AXIS_SINCE or len(node.inputs) != 2 or not context.editor.can_hold(node):
        return False
    for value, other in (tuple(node.inputs), tuple(reversed(node.inputs))):
        cast, scale = producer(value, "Cast"), facts.constant(other)
        if cast is None or value is None or scale is None or not is_used_once(value) or cast.inputs[0] is None:
            continue
        tensor = constant_tensor(cast.inputs[0])
        if tensor is None or tensor.dtype not in _QUANTIZED or facts.dtype(value) is not ir.DataType.FLOAT:
            continue
        shape = tuple(tensor.shape.numpy())
        if scale.size == 1 and scale.ndim <= len(shape):
            number = context.editor.constant(node, scale.reshape(()))
            return context.editor.substitute(node, "DequantizeLinear", [cast.inputs[0], number])
        axis = int(np.argmax(scale.shape)) + len(shape) - scale.ndim
        if 0 <= axis < len(shape) and scale.size == shape[axis] and max(scale.shape) == scale.size:
            numbers = context.editor.constant(node, scale.reshape(-1))
            return context.editor.substitute(node, "DequantizeLinear", [cast.inputs[0], numbers], {"axis": axis})
    return False


QUANTIZATION: Final[Rules] = {"Mul": (_to_dequantize,)}
"""Rules that keep all bits."""
