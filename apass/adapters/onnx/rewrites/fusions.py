"""Fusions that round differently, so that they change last digits."""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import Shape, attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.merging import is_used_once, producer

__all__ = ["FUSIONS"]

_GEMM_SINCE: Final = 11
"""The version of the operator set in which the third operand of Gemm became optional."""

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


FUSIONS: Final[Rules] = {
    "Add": (_add_to_gemm,),
    "Gemm": (_transpose_in_gemm,),
    "Max": (_bounds_to_clip,),
    "Min": (_bounds_to_clip,),
}
"""Rules that change last digits."""
