"""Replacement of several nodes by one that computes the same, bit by bit."""

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import Shape, attributes, broadcast
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts, is_onnx
from apass.adapters.onnx.rewrites.kernels import Array
from apass.adapters.onnx.rewrites.zeros import is_zero_sign_lost

__all__ = ["MERGES", "is_used_once", "keeps_shape", "producer", "reduced_axes", "slice_of_axes"]

_VIEWS: Final = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that keep the order of the elements."""

_BROADCASTING: Final = frozenset(
    {"Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater", "GreaterOrEqual", "Less"}
    | {"LessOrEqual", "Mod", "Mul", "Or", "Sub", "Sum", "Where", "Xor"}
)
"""Operators that broadcast all their operands, and compute the same for equal numbers.

In onnxruntime 1.32, `Pow` multiplies if the exponent is a scalar, so that `x ** 3` differs in the last digit. `Max` and
`Min` of 0.0 and -0.0 depend on which operand is a scalar.
"""


def producer(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Return the node that computes a value, if it is one of the operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in operators and is_onnx(node) else None


def is_used_once(value: ir.Value) -> bool:
    """Return whether a value has one use and is not an output."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def keeps_shape(facts: Facts, constant: Array, other: ir.Value) -> bool:
    """Return whether broadcasting with a constant keeps the shape of a value."""
    if constant.size == 1 and constant.ndim <= facts.least_rank(other):
        return True
    shape = facts.shape(other)
    return shape is not None and broadcast([shape, constant.shape], facts.fresh) == shape


def _is_view(node: ir.Node | None, facts: Facts) -> bool:
    """Return whether a node keeps the order of the elements."""
    if node is None or not is_onnx(node):
        return False
    if node.op_type in _VIEWS:
        return True
    shape = facts.shape(node.inputs[0]) if node.op_type == "Transpose" else None
    if shape is None:
        return False
    perm = attributes(node).get("perm") or tuple(reversed(range(len(shape))))
    moved = [axis for axis in perm if shape[axis] != 1]
    return moved == sorted(moved)


def _merge_views(node: ir.Node, context: Context) -> bool:
    """Replace two nodes that keep the order of the elements by none or by one Reshape."""
    facts = context.facts
    before = node.inputs[0].producer() if node.inputs[0] is not None else None
    if not _is_view(node, facts) or before is None or not _is_view(before, facts):
        return False
    source = before.inputs[0]
    shape, result = facts.shape(source), facts.shape(node.outputs[0])
    if source is None or shape is None or result is None:
        return False
    if shape == result:
        return context.editor.bypass(node, source)
    target = _reshape_target(shape, result)
    if target is None or not is_used_once(before.outputs[0]) or facts.version < 5:
        return False
    if node.op_type == "Reshape" and not context.editor.can_hold(node):
        # A new Constant node would replace the one that is saved.
        return False
    return context.editor.substitute(node, "Reshape", [source, context.editor.constant(node, target)])


def _reshape_target(shape: Shape, result: Shape) -> list[int] | None:
    """Return the operand of the Reshape between two shapes, if it is constant."""
    if 0 in result:
        return None
    target: list[int] = []
    for axis, dim in enumerate(result):
        if isinstance(dim, int):
            target.append(dim)
        elif shape[axis : axis + 1] == (dim,):
            target.append(0)
        else:
            target.append(-1)
    # If a copied dimension is 0, so is the number of elements, and the -1 could be any number: an error.
    return target if target.count(-1) <= (0 not in target) else None


def _view_transpose(node: ir.Node, context: Context) -> bool:
    """Merge a Transpose with a node before it, if it keeps the order of the elements."""
    return _is_view(node, context.facts) and _merge_views(node, context)


def _merge_transposes(node: ir.Node, context: Context) -> bool:
    before = producer(node.inputs[0], "Transpose")
    if before is None:
        return False
    first, second = attributes(before).get("perm"), attributes(node).get("perm")
    known = first or second
    shape = context.facts.shape(before.inputs[0])
    rank = len(known) if known is not None else None if shape is None else len(shape)
    if rank is None or before.inputs[0] is None:
        return False
    backwards = tuple(reversed(range(rank)))
    first, second = first or backwards, second or backwards
    perm = [first[axis] for axis in second]
    if perm == sorted(perm):
        return context.editor.bypass(node, before.inputs[0])
    if not is_used_once(before.outputs[0]):
        return False
    return context.editor.substitute(node, "Transpose", [before.inputs[0]], {"perm": perm})


_INTEGER_RANGES: Final = {
    ir.DataType.BOOL: (0, 1),
    **{ir.DataType[f"INT{bits}"]: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{ir.DataType[f"UINT{bits}"]: (0, 2**bits - 1) for bits in (8, 16, 32, 64)},
}
"""The smallest and the largest number of each integer type."""

_PRECISION: Final = {
    ir.DataType.FLOAT16: 2**11,
    ir.DataType.BFLOAT16: 2**8,
    ir.DataType.FLOAT: 2**24,
    ir.DataType.DOUBLE: 2**53,
}
"""The integer up to which all integers are numbers of the type."""

_WIDER_FLOATS: Final = {
    ir.DataType.FLOAT16: (ir.DataType.FLOAT, ir.DataType.DOUBLE),
    ir.DataType.BFLOAT16: (ir.DataType.FLOAT, ir.DataType.DOUBLE),
    ir.DataType.FLOAT: (ir.DataType.DOUBLE,),
}
"""The types that contain all numbers of a type."""


def _contains(wide: ir.DataType, narrow: ir.DataType) -> bool:
    """Return whether each number of type `narrow` is one of type `wide`."""
    if wide == narrow:
        return True
    if narrow in _INTEGER_RANGES:
        low, high = _INTEGER_RANGES[narrow]
        if wide in _INTEGER_RANGES:
            bounds = _INTEGER_RANGES[wide]
            return bounds[0] <= low and high <= bounds[1] and wide != ir.DataType.BOOL
        return wide in _PRECISION and max(-low, high) <= _PRECISION[wide]
    return wide in _WIDER_FLOATS.get(narrow, ())


def _merge_casts(node: ir.Node, context: Context) -> bool:
    """Cast the original value, if the first Cast loses nothing."""
    before = producer(node.inputs[0], "Cast")
    if before is None or before.inputs[0] is None:
        return False
    facts = context.facts
    original, between = facts.dtype(before.inputs[0]), facts.dtype(before.outputs[0])
    target = facts.dtype(node.outputs[0])
    if original is None or between is None or target is None or not _contains(between, original):
        return False
    if target == original:
        return context.editor.bypass(node, before.inputs[0])
    plain = (_INTEGER_RANGES.keys() | _PRECISION.keys()) - {ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
    if original not in _INTEGER_RANGES and original not in _PRECISION:
        return False
    # Casts to narrow types may round twice, and to FP8 depend on the type before.
    if target not in plain or not is_used_once(before.outputs[0]):
        return False
    context.editor.set_input(node, 0, before.inputs[0])
    return True


def _fix_type(node: ir.Node, context: Context) -> bool:
    """Replace CastLike by Cast, which does not need the second operand."""
    target = context.facts.dtype(node.inputs[1])
    if target is None or node.inputs[0] is None:
        return False
    return context.editor.substitute(node, "Cast", [node.inputs[0]], {"to": target.value, **attributes(node)})


def _drop_expansion(node: ir.Node, context: Context) -> bool:
    """Use the operand of an Expand or Unsqueeze, if the operator broadcasts it anyway."""
    facts = context.facts
    shapes = [facts.shape(value) for value in node.inputs]
    # Max, Min and Sum broadcast their operands from version 8.
    if facts.version < 8 or any(shape is None for shape in shapes):
        return False
    known = [shape for shape in shapes if shape is not None]
    for index, value in enumerate(node.inputs):
        before = producer(value, "Expand", "Unsqueeze", "Reshape")
        if before is None or value is None or not is_used_once(value):
            continue
        source = before.inputs[0]
        shape = facts.shape(source)
        if source is None or shape is None or not _is_broadcast_of(before, shape, known[index]):
            continue
        others = [*known[:index], shape, *known[index + 1 :]]
        if broadcast(others, facts.fresh) == facts.shape(node.outputs[0]) == broadcast(known, facts.fresh):
            context.editor.set_input(node, index, source)
            return True
    return False


def _is_broadcast_of(node: ir.Node, shape: Shape, result: Shape) -> bool:
    """Return whether a node only broadcasts its operand, or adds axes in front."""
    if node.op_type == "Expand":
        return True
    added = len(result) - len(shape)
    return added >= 0 and result == (1,) * added + shape


def _drop_zero(node: ir.Node, context: Context) -> bool:
    """Remove the addition of 0.0, if nothing depends on the sign of zeros."""
    facts, result = context.facts, node.outputs[0]
    if facts.version < 7 or not node.outputs[0].uses():
        return False
    for index, value in enumerate(node.inputs):
        constant, other = facts.constant(value), node.inputs[1 - index]
        if constant is None or other is None or constant.dtype.kind in "iubO" or constant.astype(np.float64).any():
            continue
        if facts.dtype(other) != facts.dtype(result) or not keeps_shape(facts, constant, other):
            continue
        if is_zero_sign_lost(node, facts, [other]):
            return context.editor.bypass(node, other)
    return False


def _merge_concats(node: ir.Node, context: Context) -> bool:
    """Concatenate the parts of a part at once."""
    axis = attributes(node).get("axis")
    shape = context.facts.shape(node.outputs[0])
    parts: list[ir.Value | None] = []
    for value in node.inputs:
        before = producer(value, "Concat")
        inner = None if before is None else attributes(before).get("axis")
        same = inner == axis or (
            shape is not None and inner is not None and (inner - cast("int", axis)) % len(shape) == 0
        )
        if before is not None and value is not None and same and is_used_once(value):
            parts += before.inputs
        else:
            parts.append(value)
    if len(parts) == len(node.inputs):
        return False
    return context.editor.substitute(node, "Concat", parts, {"axis": axis})


def _join_parts(node: ir.Node, context: Context) -> bool:
    """Use the operand of a Split whose parts are concatenated in order."""
    before = producer(node.inputs[0], "Split")
    if before is None or list(node.inputs) != list(before.outputs) or before.inputs[0] is None:
        return False
    shape = context.facts.shape(node.outputs[0])
    axes = attributes(node).get("axis", 0), attributes(before).get("axis", 0)
    if axes[0] != axes[1] and (shape is None or (axes[0] - axes[1]) % len(shape)):
        return False
    return context.editor.bypass(node, before.inputs[0])


def _where_not(node: ir.Node, context: Context) -> bool:
    """Exchange the operands of a Where instead of negating its condition."""
    before = producer(node.inputs[0], "Not")
    if before is None or not is_used_once(before.outputs[0]):
        return False
    if not is_zero_sign_lost(node, context.facts, node.inputs[1:3]):
        return False
    return context.editor.substitute(node, "Where", [before.inputs[0], node.inputs[2], node.inputs[1]])


def _or_equal(node: ir.Node, context: Context) -> bool:
    """Replace `a < b or a == b` by one comparison."""
    sides = [producer(value, "Less", "Greater", "Equal") for value in node.inputs]
    if context.facts.version < 12 or None in sides:
        return False
    first, second = cast("list[ir.Node]", sides)
    if first.op_type == "Equal":
        first, second = second, first
    if second.op_type != "Equal" or first.op_type == "Equal":
        return False
    if set(first.inputs) != set(second.inputs) or not all(is_used_once(item.outputs[0]) for item in (first, second)):
        return False
    return context.editor.substitute(node, f"{first.op_type}OrEqual", list(first.inputs))


def _add_negative(node: ir.Node, context: Context) -> bool:
    """Subtract instead of adding the negative, and add instead of subtracting it."""
    for index in (1, 0) if node.op_type == "Add" else (1,):
        before = producer(node.inputs[index], "Neg")
        if before is not None and is_used_once(before.outputs[0]) and context.facts.version >= 7:
            other = "Sub" if node.op_type == "Add" else "Add"
            return context.editor.substitute(node, other, [node.inputs[1 - index], before.inputs[0]])
    return False


def _keep_dims(keep: int) -> Callable[[ir.Node, Context], bool]:
    """Return a rule that lets a reduction keep (1) or drop (0) its axes itself."""

    def rule(node: ir.Node, context: Context) -> bool:
        value = node.inputs[0]
        before = None if value is None else value.producer()
        if before is None or value is None or not is_onnx(before) or not before.op_type.startswith(("Reduce", "Arg")):
            return False
        attrs = attributes(before)
        if not is_used_once(value) or attrs.get("keepdims", 1) == keep:
            return False
        facts = context.facts
        shape = facts.shape(before.inputs[0])
        if shape is None:
            return False
        axes = reduced_axes(before, len(shape), facts)
        kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape)) if axes is not None else None
        dropped = tuple(dim for axis, dim in enumerate(shape) if axes is not None and axis not in axes)
        if axes is None or facts.shape(node.outputs[0]) != (kept if keep else dropped):
            return False
        return context.editor.substitute(node, before.op_type, list(before.inputs), {**attrs, "keepdims": keep})

    return rule


def reduced_axes(node: ir.Node, rank: int, facts: Facts) -> list[int] | None:
    """Return the axes that a reduction removes; None if they are unknown."""
    attrs = attributes(node)
    if not rank:  # onnxruntime accepts any axis of a scalar
        return []
    if node.op_type.startswith("Arg"):
        return [attrs.get("axis", 0) % rank]
    axes: Sequence[int] | None = attrs.get("axes")
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        axes = facts.integers(node.inputs[1])
        if axes is None:
            return None
    if not axes:
        return [] if attrs.get("noop_with_empty_axes", 0) else list(range(rank))
    return [axis % rank for axis in axes]


def _merge_slices(node: ir.Node, context: Context) -> bool:
    """Slice other axes in the Slice before."""
    before = producer(node.inputs[0], "Slice")
    facts = context.facts
    if before is None or facts.version < 10 or not is_used_once(before.outputs[0]) or not context.editor.can_hold(node):
        return False
    rank = len(facts.shape(node.inputs[0]) or ())
    bounds = [slice_of_axes(item, rank, facts) for item in (before, node)]
    if not rank or bounds[0] is None or bounds[1] is None or bounds[0].keys() & bounds[1].keys():
        return False
    merged = {**bounds[0], **bounds[1]}
    if any(max(map(abs, bound)) >= 2**63 for bound in merged.values()):
        return False
    columns = [[bound[index] for bound in merged.values()] for index in range(3)]
    operands = [columns[0], columns[1], list(merged), columns[2]]
    constants = [context.editor.constant(node, column) for column in operands]
    return context.editor.substitute(node, "Slice", [before.inputs[0], *constants])


def slice_of_axes(node: ir.Node, rank: int, facts: Facts) -> dict[int, tuple[int, int, int]] | None:
    """Return start, end and step of each sliced axis, if they are constant."""
    operands = [facts.integers(value) for value in node.inputs[1:]]
    if len(operands) < 2 or not rank:
        return None
    if any(value is not None and numbers is None for value, numbers in zip(node.inputs[1:], operands, strict=True)):
        return None
    starts, ends, axes, steps = [*operands, None, None][:4]
    if starts is None or ends is None:
        return None
    chosen = [axis % rank for axis in axes] if axes is not None else list(range(len(starts)))
    return dict(zip(chosen, zip(starts, ends, steps or [1] * len(starts), strict=True), strict=True))


def _gather_scalar(node: ir.Node, context: Context) -> bool:
    """Gather without the axis that a node after it removes."""
    before = producer(node.inputs[0], "Gather")
    facts = context.facts
    if before is None or not is_used_once(before.outputs[0]) or not context.editor.can_hold(node):
        return False
    indices, shape = facts.constant(before.inputs[1]), facts.shape(before.inputs[0])
    if indices is None or shape is None or indices.shape != (1,):
        return False
    axis = int(attributes(before).get("axis", 0)) % len(shape)
    if facts.shape(node.outputs[0]) != (*shape[:axis], *shape[axis + 1 :]):
        return False
    index = context.editor.constant(node, indices.reshape(()))
    return context.editor.substitute(node, "Gather", [before.inputs[0], index], {"axis": axis})


_DROPPING: Final[dict[str, tuple[Any, ...]]] = dict.fromkeys(_BROADCASTING, (_drop_expansion,))

MERGES: Final[Rules] = {
    **_DROPPING,
    "Add": (_drop_zero, _add_negative, _drop_expansion),
    "Cast": (_merge_casts,),
    "CastLike": (_fix_type,),
    "Concat": (_join_parts, _merge_concats),
    "Flatten": (_merge_views,),
    "Or": (_or_equal, _drop_expansion),
    "Reshape": (_keep_dims(0), _keep_dims(1), _merge_views, _gather_scalar),
    "Slice": (_merge_slices,),
    "Squeeze": (_keep_dims(0), _merge_views, _gather_scalar),
    "Sub": (_add_negative, _drop_expansion),
    "Transpose": (_merge_transposes, _view_transpose),
    "Unsqueeze": (_keep_dims(1), _merge_views),
    "Where": (_where_not, _drop_expansion),
}
"""Rules that replace several nodes by one."""
