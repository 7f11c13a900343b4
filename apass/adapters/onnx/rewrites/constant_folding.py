"""Replacement of computed values by constants."""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.engine import ANY, Context, Rules
from apass.adapters.onnx.rewrites.facts import constant_tensor

__all__ = ["FOLDING"]


def _fold(node: ir.Node, context: Context) -> bool:
    """Replace a node whose results are constant by initializers."""
    facts, editor = context.facts, context.editor
    if node.op_type == "Constant":
        return _lift(node, context)
    used = [value for value in node.outputs if value.uses() or value.is_graph_output()]
    arrays = [facts.constant(value) for value in used]
    if not used or any(array is None for array in arrays):
        return False
    if not context.growth.allows(node, sum(array.nbytes for array in arrays if array is not None)):
        return False
    if any(value.is_graph_output() for value in used):
        return len(used) == 1 and _make_constant(node, used[0], context)
    editor.start_change()
    values: dict[ir.Value, ir.Value] = {}
    for value, array in zip(used, arrays, strict=True):
        assert array is not None
        name = value.name or ""
        value.name = f"{name}_folded"
        dtype = facts.dtype(value)
        values[value] = editor.hold(node, ir.Tensor(array, dtype, name=name), name)
    return editor.replace(node, values)


def _lift(node: ir.Node, context: Context) -> bool:
    """Replace a Constant node by an initializer."""
    value = node.outputs[0]
    tensor = constant_tensor(value)
    if tensor is None or not value.name or value.is_graph_output() or not context.editor.can_hold(node):
        return False
    if not value.uses():
        return False
    context.editor.start_change()
    name = value.name
    value.name = f"{name}_lifted"
    new = context.editor.hold(node, tensor, name)
    context.facts.copy(value, new)
    return context.editor.bypass(node, new)


def _make_constant(node: ir.Node, value: ir.Value, context: Context) -> bool:
    """Replace the node of an output by a Constant node."""
    # An output must not be an initializer.
    array = context.facts.constant(value)
    if len(node.outputs) != 1 or array is None:
        return False
    return context.editor.substitute(node, "Constant", [], {"value": ir.Tensor(array, context.facts.dtype(value))})


FOLDING: Final[Rules] = {ANY: (_fold,)}
"""Rules that replace computed values by constants."""
