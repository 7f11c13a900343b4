"""Operators that are spelled out are restored."""

from typing import Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.affine import affine_of
from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.merging import is_used_once, producer
from apass.adapters.onnx.rewrites.noop_elimination import has_same_shape
from apass.adapters.onnx.rewrites.patterns import gelu_operand, is_close, normalized, number_of

__all__ = ["ACTIVATIONS"]

HARD_SWISH_SINCE: Final = 14
"""The version of the operator set in which HardSwish was added."""

LAYER_NORMALIZATION_SINCE: Final = 17
"""The version of the operator set in which LayerNormalization was added."""

GELU_SINCE: Final = 20
"""The version of the operator set in which Gelu was added."""


def _scaled(node: ir.Node, facts: Facts) -> tuple[ir.Value, float] | None:
    """Return the operand and the number that a node multiplies it by, or None."""
    found = affine_of(node, facts) if node.op_type in ("Div", "Mul") else None
    if found is None or found[1].scale is None or found[1].shift is not None or found[1].scale.size != 1:
        return None
    return found[0], float(found[1].scale.reshape(-1)[0])


def _ramp(value: ir.Value | None, facts: Facts) -> tuple[ir.Value, float, float, float] | None:
    """Return `x, a, b, top` of a value `min(max(a * x + b, 0), top)`.

    The value must have one use.
    """
    clip = producer(value, "Clip")
    if clip is None or value is None or not is_used_once(value):
        return None
    if len(clip.inputs) != 3 or number_of(clip.inputs[1], facts) != 0.0 or clip.inputs[0] is None:
        return None
    top = number_of(clip.inputs[2], facts)
    source, slope, offset = clip.inputs[0], 1.0, 0.0
    while (before := source.producer()) is not None and is_used_once(source) and facts.knows(before):
        found = affine_of(before, facts) if before.op_type in ("Add", "Div", "Mul", "Sub") else None
        if found is None or not found[1].is_scalar:
            break
        scale, shift = (
            0.0 if array is None else float(array.reshape(-1)[0]) for array in (found[1].scale, found[1].shift)
        )
        offset += slope * shift
        slope *= 1.0 if found[1].scale is None else scale
        source = found[0]
    return None if top is None or top <= 0 else (source, slope, offset, top)


def _to_hard_sigmoid(node: ir.Node, context: Context) -> bool:
    """Replace `min(max(a * x + b, 0), top) / top` by a HardSigmoid.

    There may be a product before the division.
    """
    facts = context.facts
    scaled = _scaled(node, facts)
    if scaled is None or facts.dtype(node.outputs[0]) is not ir.DataType.FLOAT:
        return False
    value, factor = scaled
    product = producer(value, "Mul")
    operands = [value] if product is None else list(product.inputs)
    if product is not None and not is_used_once(value):
        return False
    for operand in operands:
        ramp = _ramp(operand, facts)
        if ramp is None or not is_close(factor, 1 / ramp[3]):
            continue
        source, slope, offset, top = ramp
        attrs = {"alpha": float(np.float32(slope / top)), "beta": float(np.float32(offset / top))}
        if product is None:
            return context.editor.substitute(node, "HardSigmoid", [source], attrs)
        other = product.inputs[1] if operand is product.inputs[0] else product.inputs[0]
        gate = context.editor.add(node, "HardSigmoid", [source], attrs)
        return context.editor.substitute(node, "Mul", [other, gate.outputs[0]])
    return False


def _clip_to_hard_sigmoid(node: ir.Node, context: Context) -> bool:
    """Replace `min(max(a * x + b, 0), 1)` by a HardSigmoid."""
    facts = context.facts
    if facts.dtype(node.outputs[0]) is not ir.DataType.FLOAT or len(node.inputs) != 3:
        return False
    source = node.inputs[0]
    if source is None or not is_used_once(source) or number_of(node.inputs[2], facts) != 1.0:
        return False
    before = producer(source, "Add", "Div", "Mul", "Sub")
    found = None if before is None else affine_of(before, facts)
    if found is None or not found[1].is_scalar or number_of(node.inputs[1], facts) != 0.0:
        return False
    scale, shift = found[1].scale, found[1].shift
    attrs = {
        "alpha": 1.0 if scale is None else float(np.float32(scale.reshape(-1)[0])),
        "beta": 0.0 if shift is None else float(np.float32(shift.reshape(-1)[0])),
    }
    return context.editor.substitute(node, "HardSigmoid", [found[0]], attrs)


def _slope_in_hard_sigmoid(node: ir.Node, context: Context) -> bool:
    """Let a HardSigmoid scale and shift its operand."""
    source = node.inputs[0]
    before = producer(source, "Add", "Div", "Mul", "Sub")
    found = None if before is None or source is None or not is_used_once(source) else affine_of(before, context.facts)
    if found is None or not found[1].is_scalar:
        return False
    attrs = attributes(node)
    alpha, beta = attrs.get("alpha", 0.2), attrs.get("beta", 0.5)
    scale, shift = found[1].scale, found[1].shift
    beta += 0.0 if shift is None else alpha * float(shift.reshape(-1)[0])
    alpha *= 1.0 if scale is None else float(scale.reshape(-1)[0])
    new = {"alpha": float(np.float32(alpha)), "beta": float(np.float32(beta))}
    return context.editor.substitute(node, "HardSigmoid", [found[0]], new)


def _to_hard_swish(node: ir.Node, context: Context) -> bool:
    """Replace `x * HardSigmoid(x)` by a HardSwish."""
    facts = context.facts
    if facts.version < HARD_SWISH_SINCE or len(node.inputs) != 2:
        return False
    for value, other in (tuple(node.inputs), tuple(reversed(node.inputs))):
        gate = producer(value, "HardSigmoid")
        if gate is None or value is None or not is_used_once(value) or gate.inputs[0] is not other:
            continue
        attrs = attributes(gate)
        if is_close(attrs.get("alpha", 0.2), 1 / 6) and is_close(attrs.get("beta", 0.5), 0.5):
            return context.editor.substitute(node, "HardSwish", [other])
    return False


def _to_gelu(node: ir.Node, context: Context) -> bool:
    """Replace `x * (1 + erf(x / sqrt(2))) / 2` by a Gelu."""
    facts = context.facts
    if facts.version < GELU_SINCE or facts.dtype(node.outputs[0]) is not ir.DataType.FLOAT:
        return False
    operand = gelu_operand(node, facts)
    # A constant of one element may add axes.
    if operand is None or not has_same_shape(facts, operand, node.outputs[0]):
        return False
    return context.editor.substitute(node, "Gelu", [operand])


def _to_layer_normalization(node: ir.Node, context: Context) -> bool:
    """Replace the division of a spelled-out normalization by a LayerNormalization.

    Rules for scales and shifts let it compute those that follow.
    """
    facts = context.facts
    if facts.version < LAYER_NORMALIZATION_SINCE or not context.editor.can_hold(node):
        return False
    found, shape = normalized(node, facts), facts.shape(node.outputs[0])
    # Other types are computed as float32, by default.
    if found is None or shape is None or facts.dtype(node.outputs[0]) is not ir.DataType.FLOAT:
        return False
    source, epsilon = found
    size = shape[-1]
    # A constant of one element may add axes.
    if shape != facts.shape(source) or not isinstance(size, int):
        return False
    ones = context.editor.constant(node, np.ones(size, np.float32))
    return context.editor.substitute(node, "LayerNormalization", [source, ones], {"epsilon": epsilon})


ACTIVATIONS: Final[Rules] = {
    "Clip": (_clip_to_hard_sigmoid,),
    "Div": (_to_hard_sigmoid, _to_layer_normalization),
    "HardSigmoid": (_slope_in_hard_sigmoid,),
    "Mul": (_to_hard_sigmoid, _to_hard_swish, _to_gelu),
}
"""Rules that restore operators; they change last digits."""
