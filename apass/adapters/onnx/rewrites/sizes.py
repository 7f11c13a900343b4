"""Values that are computed from shapes become constant, or are computed once."""

from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import Dim, Shape, attributes
from apass.adapters.onnx.rewrites.engine import ANY, Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.merging import is_used_once, producer

__all__ = ["SIZES"]

SHAPE_BOUNDS_SINCE: Final = 15
"""The version of the operator set in which Shape got a start and an end."""


def _reuse_size(node: ir.Node, context: Context) -> bool:
    """Use an earlier value with the same elements, such as a size of another tensor."""
    facts, value = context.facts, node.outputs[0]
    elements, shape, dtype = facts.elements(value), facts.shape(value), facts.dtype(value)
    if not elements or shape is None or dtype is None or all(isinstance(element, int) for element in elements):
        return False
    key = (id(node.graph), dtype, shape, elements)
    earlier = context.sizes.setdefault(key, value)
    before = earlier.producer()
    if before is None or before.graph is not node.graph:
        context.sizes[key] = value
        return False
    return earlier is not value and context.editor.bypass(node, earlier)


def _constant_target(node: ir.Node, context: Context) -> bool:
    """Replace the computed shape of a Reshape by numbers.

    0 copies a size, and -1 is inferred.
    """
    facts = context.facts
    if facts.version < 5 or facts.constant(node.inputs[1]) is not None:
        return False
    elements, source = facts.elements(node.inputs[1]), facts.shape(node.inputs[0])
    result = facts.shape(node.outputs[0])
    if elements is None or source is None or result is None or not context.editor.can_hold(node):
        return False
    allows_zero = attributes(node).get("allowzero", 0)
    if allows_zero and 0 in elements:
        return False
    target = _numbers(elements, source, result)
    if target is None:
        return False
    # With `allowzero`, 0 would be the size itself and not a copy.
    return context.editor.substitute(node, "Reshape", [node.inputs[0], context.editor.constant(node, target)])


def _numbers(elements: Shape, source: Shape, result: Shape) -> list[int] | None:
    target: list[int] = []
    for axis, element in enumerate(elements):
        if isinstance(element, int):
            target.append(element)
        elif source[axis : axis + 1] == (element,):
            target.append(0)
        else:
            target.append(-1)
    if target.count(-1) <= 1:
        # With a copied size of 0 there would be no elements, from which nothing can be inferred. A -1 of the model
        # itself has the same problem.
        return target if -1 not in target or -1 in elements or 0 not in target else None
    if target.count(-1) == 2 and -1 in elements:
        # What the model infers may be known.
        known: Dim = result[elements.index(-1)]
        if isinstance(known, int) and known > 0 and 0 not in target:
            target[elements.index(-1)] = known
            return target
    return None


def _bounds_in_shape(node: ir.Node, context: Context) -> bool:
    """Let a Shape return only the sizes that are used."""
    facts = context.facts
    before = producer(node.inputs[0], "Shape")
    if facts.version < SHAPE_BOUNDS_SINCE or before is None or not is_used_once(before.outputs[0]):
        return False
    shape = facts.shape(before.inputs[0])
    axes = None if shape is None else _selected(node, facts, list(range(len(shape))[_bounds(before)]))
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return False
    return context.editor.substitute(node, "Shape", [before.inputs[0]], {"start": axes[0], "end": axes[-1] + 1})


def _bounds(node: ir.Node) -> slice:
    attrs = attributes(node)
    return slice(attrs.get("start", 0), attrs.get("end"))


def _selected(node: ir.Node, facts: Facts, axes: list[int]) -> list[int] | None:
    """Return the axes whose sizes a Slice or a Gather of them selects."""
    if node.op_type == "Gather":
        indices = facts.constant(node.inputs[1])
        if indices is None or indices.ndim != 1:
            return None
        return [axes[int(index)] for index in indices if -len(axes) <= index < len(axes)]
    operands = [facts.integers(value) for value in node.inputs[1:]]
    if len(operands) < 2 or any(numbers is None or len(numbers) != 1 for numbers in operands):
        return None
    start, end, step = operands[0], operands[1], operands[3] if len(operands) > 3 else [1]
    assert start is not None
    assert end is not None
    return axes[start[0] : end[0]] if step == [1] else None


SIZES: Final[Rules] = {
    ANY: (_reuse_size,),
    "Gather": (_bounds_in_shape,),
    "Reshape": (_constant_target,),
    "Slice": (_bounds_in_shape,),
}
"""Rules for values that are computed from shapes; they keep all bits."""
