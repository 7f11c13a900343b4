"""Fusions that round differently, so that they change last digits."""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import Shape, attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.merging import is_used_once, keeps_shape, producer

__all__ = ["FUSIONS"]

_GEMM_SINCE: Final = 11
"""The version of the operator set in which the third operand of Gemm became optional."""

_PADS_SINCE: Final = 11
"""The version of the operator set in which the pads of Pad became an operand."""

_GEMM_TYPES: Final = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})


def _matrix(facts: Facts, value: ir.Value | None) -> Shape | None:
    """Return the shape of a matrix of floating-point numbers, or None."""
    shape = facts.shape(value)
    return shape if shape is not None and len(shape) == 2 and facts.dtype(value) in _GEMM_TYPES else None


def _add_to_gemm(node: ir.Node, context: Context) -> bool:
    """Add the bias of a product of matrices in one Gemm."""
    facts = context.facts
    for index, value in enumerate(node.inputs):
        before, bias = producer(value, "MatMul", "Gemm"), node.inputs[1 - index]
        if before is None or value is None or bias is None or not is_used_once(value) or facts.version < _GEMM_SINCE:
            continue
        result, shape = facts.shape(node.outputs[0]), facts.shape(bias)
        operands = list(before.inputs[:2])
        if any(_matrix(facts, operand) is None for operand in operands) or len(before.inputs) > 2:
            continue
        # Gemm broadcasts the bias to the product, but not the product to the bias.
        if shape is None or len(shape) > 2 or result is None or result != facts.shape(value):
            continue
        # A Gemm without a third operand ignores its factor.
        attrs = {name: number for name, number in attributes(before).items() if name != "beta"}
        return context.editor.substitute(node, "Gemm", [*operands, bias], attrs)
    return False


def _transpose_in_gemm(node: ir.Node, context: Context) -> bool:
    """Let a Gemm transpose its operands."""
    facts = context.facts
    if facts.version < _GEMM_SINCE or any(_matrix(facts, value) is None for value in node.inputs[:2]):
        return False
    attrs = attributes(node)
    operands: list[ir.Value | None] = list(node.inputs)
    for index, name in enumerate(("transA", "transB")):
        before = producer(operands[index], "Transpose")
        if before is not None and is_used_once(before.outputs[0]) and attributes(before).get("perm", (1, 0)) == (1, 0):
            operands[index] = before.inputs[0]
            attrs[name] = 1 - attrs.get(name, 0)
    if operands == list(node.inputs):
        return False
    return context.editor.substitute(node, "Gemm", operands, attrs)


def _bounds_to_clip(node: ir.Node, context: Context) -> bool:
    """Replace a Min and a Max with constant bounds by a Clip; NaN may become a bound."""
    facts, other = context.facts, "Min" if node.op_type == "Max" else "Max"
    if len(node.inputs) != 2 or facts.version < 12:
        return False
    for value, bound in (tuple(node.inputs), tuple(reversed(node.inputs))):
        before = producer(value, other)
        if before is None or value is None or bound is None or not is_used_once(value) or len(before.inputs) != 2:
            continue
        for source, inner in (tuple(before.inputs), tuple(reversed(before.inputs))):
            limits = facts.constant(bound), facts.constant(inner)
            if source is None or inner is None or any(limit is None or limit.ndim for limit in limits):
                continue
            low, high = (bound, inner) if node.op_type == "Max" else (inner, bound)
            first, second = facts.constant(low), facts.constant(high)
            assert first is not None
            assert second is not None
            if (first <= second).all():
                return context.editor.substitute(node, "Clip", [source, low, high])
    return False


def _drop_zero(node: ir.Node, context: Context) -> bool:
    """Remove the addition of zeros, which makes -0.0 to 0.0."""
    facts = context.facts
    for index in (1, 0) if node.op_type == "Add" else (1,):
        zeros, other = facts.constant(node.inputs[index]), node.inputs[1 - index]
        if zeros is None or other is None or zeros.dtype.kind != "f" or zeros.any() or facts.version < 7:
            continue
        if keeps_shape(facts, zeros, other):
            return context.editor.bypass(node, other)
    return False


def _pad_in_conv(node: ir.Node, context: Context) -> bool:
    """Let a Conv pad its operand with zeros."""
    facts, before = context.facts, producer(node.inputs[0], "Pad")
    attrs = attributes(node)
    if before is None or facts.version < _PADS_SINCE:
        return False
    padded = before.outputs[0]
    if padded.is_graph_output() or any(use.node.op_type != "Conv" for use in padded.uses()):
        return False
    if attrs.get("auto_pad", "NOTSET") != "NOTSET" or attributes(before).get("mode", "constant") != "constant":
        return False
    filling = facts.constant(before.inputs[2]) if len(before.inputs) > 2 and before.inputs[2] is not None else None
    has_other = len(before.inputs) > 2 and before.inputs[2] is not None and (filling is None or bool(filling.any()))
    pads, axes = facts.integers(before.inputs[1]), before.inputs[3] if len(before.inputs) > 3 else None
    if has_other or pads is None or axes is not None or min(pads, default=0) < 0:
        return False
    rank = len(pads) // 2
    if any((*pads[:2], *pads[rank : rank + 2])):
        return False
    own = attrs.get("pads") or [0] * 2 * (rank - 2)
    added = [*pads[2:rank], *pads[rank + 2 :]]
    attrs["pads"] = [one + other for one, other in zip(own, added, strict=True)]
    return context.editor.substitute(node, "Conv", [before.inputs[0], *node.inputs[1:]], attrs)


FUSIONS: Final[Rules] = {
    "Add": (_add_to_gemm, _drop_zero),
    "Conv": (_pad_in_conv,),
    "Gemm": (_transpose_in_gemm,),
    "Max": (_bounds_to_clip,),
    "Min": (_bounds_to_clip,),
    "Sub": (_drop_zero,),
}
"""Rules that change last digits."""
