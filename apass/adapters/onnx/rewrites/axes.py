"""Rules for nodes that add, remove or divide axes; they keep all bits."""

from collections.abc import Sequence
from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts, is_onnx
from apass.adapters.onnx.rewrites.merging import is_used_once, producer, slice_of_axes

__all__ = ["AXES"]

AXES_SINCE: Final = 13
"""The version of the operator set in which the axes of Squeeze and the parts of Split became operands."""


def _axes(node: ir.Node, facts: Facts) -> Sequence[int] | None:
    """Return the axes that a Squeeze or an Unsqueeze names."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return facts.integers(node.inputs[1])
    axes: Sequence[int] | None = attributes(node).get("axes")
    return axes


def _undo(node: ir.Node, context: Context) -> bool:
    """Drop a Squeeze and an Unsqueeze of the same axes, in either order."""
    before = producer(node.inputs[0], "Squeeze" if node.op_type == "Unsqueeze" else "Unsqueeze")
    if before is None or before.inputs[0] is None:
        return False
    first, second = _axes(before, context.facts), _axes(node, context.facts)
    return bool(first) and first == second and context.editor.bypass(node, before.inputs[0])


def _merge_unsqueezes(node: ir.Node, context: Context) -> bool:
    """Add the axes of two Unsqueezes at once."""
    facts, before = context.facts, producer(node.inputs[0], "Unsqueeze")
    if before is None or facts.version < AXES_SINCE or not is_used_once(before.outputs[0]):
        return False
    first, second = _axes(before, facts), _axes(node, facts)
    if not first or not second or not context.editor.can_hold(node) or min(*first, *second) < 0:
        return False
    # The axes of the first count in its own result: those of the second move them.
    merged = list(second)
    for axis in sorted(first):
        position = axis
        for other in sorted(second):
            position += other <= position
        merged.append(position)
    axes = context.editor.constant(node, sorted(merged))
    return context.editor.substitute(node, "Unsqueeze", [before.inputs[0], axes])


def _gather_axis(node: ir.Node, context: Context) -> bool:
    """Gather with the axis that an Unsqueeze after it adds."""
    facts, before = context.facts, producer(node.inputs[0], "Gather")
    if before is None or not is_used_once(before.outputs[0]) or not context.editor.can_hold(node):
        return False
    index, axes, axis = facts.constant(before.inputs[1]), _axes(node, facts), int(attributes(before).get("axis", 0))
    if index is None or index.ndim or axis < 0 or axes is None or list(axes) != [axis]:
        return False
    indices = context.editor.constant(node, index.reshape(1))
    return context.editor.substitute(node, "Gather", [before.inputs[0], indices], {"axis": axis})


def _slices_to_split(node: ir.Node, context: Context) -> bool:
    """Replace the Slices that divide an axis by one Split."""
    facts, source, graph = context.facts, node.inputs[0], node.graph
    found = _part(node, facts)
    if found is None or source is None or graph is None or not context.editor.can_hold(node):
        return False
    if facts.elements(source) is not None:  # the elements are tracked through a Slice
        return False
    axis, size = found[0], found[3]
    parts: dict[int, tuple[int, ir.Node]] = {}
    for use in source.uses():
        part = _part(use.node, facts) if use.node.graph is graph and use.idx == 0 else None
        if part is not None and part[0] == axis:
            parts.setdefault(part[1], (part[2], use.node))
    starts = sorted(parts)
    ends = [parts[start][0] for start in starts]
    nodes = [parts[start][1] for start in starts]
    if len(starts) < 2 or [0, *ends] != [*starts, size] or node not in nodes:
        return False
    if any(item.outputs[0].is_graph_output() for item in nodes):
        return False
    if any(use.node.op_type == "Slice" for item in nodes for use in item.outputs[0].uses()):
        return False  # two Slices become one
    # Before the first of them, whose users may come before the other ones.
    first = next(item for item in graph if item in nodes)
    sizes = context.editor.constant(first, [end - start for start, end in zip(starts, ends, strict=True)])
    split = context.editor.add(first, "Split", [source, sizes], {"axis": axis}, outputs=len(starts))
    for (_, item), value in zip((parts[start] for start in starts), split.outputs, strict=True):
        value.type, value.shape = item.outputs[0].type, item.outputs[0].shape
        context.editor.bypass(item, value)
    return True


def _part(node: ir.Node, facts: Facts) -> tuple[int, int, int, int] | None:
    """Return axis, start, end and size if a node takes a part of one axis in order."""
    shape = facts.shape(node.inputs[0]) if node.op_type == "Slice" and facts.version >= AXES_SINCE else None
    bounds = None if shape is None or not is_onnx(node) else slice_of_axes(node, len(shape), facts)
    if shape is None or bounds is None or len(bounds) != 1:
        return None
    ((axis, (start, end, step)),) = bounds.items()
    size = shape[axis]
    if step != 1 or not isinstance(size, int):
        return None
    low, high = (min(max(bound + size if bound < 0 else bound, 0), size) for bound in (start, end))
    return (axis, low, high, size) if low < high else None


def _transpose_with_leading_axes(node: ir.Node, context: Context) -> bool:
    """Transpose without joining the leading axes first, and dividing them again.

    Exporters of attention transpose the keys as matrices: Reshape to [-1, m, n], Transpose, Reshape to [b, h, n, m].
    """
    facts, transposed = context.facts, producer(node.inputs[0], "Transpose")
    joined = None if transposed is None else producer(transposed.inputs[0], "Reshape")
    if transposed is None or joined is None or not is_used_once(transposed.outputs[0]) or joined.inputs[0] is None:
        return False
    before, inner, after = (facts.shape(value) for value in (joined.inputs[0], joined.outputs[0], node.outputs[0]))
    perm: Sequence[int] | None = attributes(transposed).get("perm")
    if before is None or inner is None or after is None or perm is None or perm[0] != 0 or len(after) != len(before):
        return False
    leading = len(before) - len(inner) + 1
    if leading < 1 or before[leading:] != inner[1:] or after[:leading] != before[:leading]:
        return False
    moved = [leading - 1 + axis for axis in perm[1:]]
    if after[leading:] != tuple(before[axis] for axis in moved):
        return False
    return context.editor.substitute(node, "Transpose", [joined.inputs[0]], {"perm": [*range(leading), *moved]})


AXES: Final[Rules] = {
    "Reshape": (_transpose_with_leading_axes,),
    "Slice": (_slices_to_split,),
    "Squeeze": (_undo,),
    "Unsqueeze": (_undo, _merge_unsqueezes, _gather_axis),
}
"""Rules that keep all bits."""
