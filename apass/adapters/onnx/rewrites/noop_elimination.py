"""Removal of nodes whose result is their operand, bit by bit."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.kernels import Array
from apass.adapters.onnx.rewrites.merging import keeps_shape, producer
from apass.adapters.onnx.rewrites.zeros import is_zero_sign_lost

__all__ = ["NO_OPS", "has_same_shape"]

_IDEMPOTENT: Final = frozenset({"Abs", "Ceil", "Floor", "Relu", "Round"})
"""Operators whose result they do not change."""

_INVOLUTIONS: Final = frozenset({"BitwiseNot", "Neg", "Not"})
"""Operators that undo themselves."""


def has_same_shape(facts: Facts, left: ir.Value | None, right: ir.Value | None) -> bool:
    """Return whether two values certainly have equal shapes."""
    shape = facts.shape(left)
    return shape is not None and shape == facts.shape(right)


def _first(node: ir.Node) -> ir.Value | None:
    return node.inputs[0] if node.inputs else None


def _bypass(node: ir.Node, context: Context, value: ir.Value | None = None) -> bool:
    """Use the first operand instead of the first result, if no other result is used."""
    value = value or _first(node)
    if value is None or any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        return False
    return context.editor.bypass(node, value)


def _always(node: ir.Node, context: Context) -> bool:
    return _bypass(node, context)


def _if_single(node: ir.Node, context: Context) -> bool:
    return len(node.inputs) == 1 and _bypass(node, context)


def _if_same_shape(node: ir.Node, context: Context) -> bool:
    """Remove a node that only changes the shape, if it does not."""
    return has_same_shape(context.facts, _first(node), node.outputs[0]) and _bypass(node, context)


def _if_same_type(node: ir.Node, context: Context) -> bool:
    before, after = context.facts.dtype(_first(node)), context.facts.dtype(node.outputs[0])
    return before is not None and before == after and _bypass(node, context)


def _transpose(node: ir.Node, context: Context) -> bool:
    """Remove a Transpose that moves only axes of size 1, and keeps the shape."""
    shape = context.facts.shape(_first(node))
    if shape is None:
        perm = attributes(node).get("perm")
        return perm is not None and list(perm) == sorted(perm) and _bypass(node, context)
    perm = attributes(node).get("perm") or tuple(reversed(range(len(shape))))
    moved = [axis for axis in perm if shape[axis] != 1]
    same = shape == context.facts.shape(node.outputs[0])
    return moved == sorted(moved) and (same or list(perm) == sorted(perm)) and _bypass(node, context)


def _slice(node: ir.Node, context: Context) -> bool:
    """Remove a Slice of everything, in the same order."""
    if not has_same_shape(context.facts, _first(node), node.outputs[0]):
        return False
    steps = context.facts.integers(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else [1]
    return steps is not None and min(steps, default=1) > 0 and _bypass(node, context)


def _pad(node: ir.Node, context: Context) -> bool:
    pads = context.facts.integers(node.inputs[1]) if len(node.inputs) > 1 else attributes(node).get("pads")
    return pads is not None and not any(pads) and _bypass(node, context)


def _dropout(node: ir.Node, context: Context) -> bool:
    """Remove a Dropout that is not training."""
    version, attrs = context.facts.version, attributes(node)
    if version < 7:
        return bool(attrs.get("is_test", 0)) and _bypass(node, context)
    training = node.inputs[2] if len(node.inputs) > 2 else None
    flag = context.facts.constant(training)
    return (training is None or (flag is not None and not flag.any())) and _bypass(node, context)


def _clip(node: ir.Node, context: Context) -> bool:
    """Remove a Clip of integers without bounds."""
    # The default bounds are the lowest and the largest finite number. Infinities are clipped.
    dtype = context.facts.dtype(_first(node))
    is_free = context.facts.version >= 11 and not any(node.inputs[1:])
    return is_free and dtype is not None and dtype.is_integer() and _bypass(node, context)


def _is_all(array: Array | None, number: float) -> bool:
    """Return whether all numbers equal `number`, with its sign."""
    if array is None or array.dtype.kind == "O" or array.dtype.kind == "c":
        return False
    plain = array.astype(np.float64) if array.dtype.kind not in "iub" else array
    return bool((plain == number).all()) and (
        plain.dtype.kind != "f" or bool((np.signbit(plain) == np.signbit(np.float64(number))).all())
    )


def _neutral(integer: float, floating: float | None, positions: Sequence[int]) -> Any:
    """Return a rule that removes an operator with a neutral operand.

    Parameters:
        integer: the neutral element of integers and truth values.
        floating: that of floating-point numbers; None if there is none.
        positions: the operands that can be neutral.

    """

    def rule(node: ir.Node, context: Context) -> bool:
        facts = context.facts
        if facts.version < 7 or len(node.inputs) != 2:
            return False
        for position in positions:
            constant, other = facts.constant(node.inputs[position]), node.inputs[1 - position]
            if constant is None or other is None:
                continue
            number = floating if constant.dtype.kind not in "iub" else integer
            if number is None or not _is_all(constant, number) or facts.dtype(other) != facts.dtype(node.outputs[0]):
                continue
            if keeps_shape(facts, constant, other) and _bypass(node, context, other):
                return True
        return False

    return rule


def _power(node: ir.Node, context: Context) -> bool:
    """Remove a power of floating-point numbers with the exponent 1."""
    # onnxruntime computes powers of 64-bit integers in double.
    base = context.facts.dtype(_first(node))
    return base is not None and base.is_floating_point() and _neutral(1, 1.0, (1,))(node, context)


def _where(node: ir.Node, context: Context) -> bool:
    """Remove a Where whose condition is constant, or whose operands are the same."""
    condition = context.facts.constant(node.inputs[0])
    if node.inputs[1] is node.inputs[2]:
        chosen = node.inputs[1]
    elif condition is not None and condition.size and condition.all() == condition.any():
        chosen = node.inputs[1 if condition.all() else 2]
    else:
        return False
    keeps = has_same_shape(context.facts, chosen, node.outputs[0]) and is_zero_sign_lost(node, context.facts, [chosen])
    return keeps and _bypass(node, context, chosen)


def _repeated(node: ir.Node, context: Context) -> bool:
    """Remove an operator that is applied to its own result."""
    before = producer(_first(node), node.op_type)
    if before is None:
        return False
    return _bypass(node, context, node.inputs[0] if node.op_type in _IDEMPOTENT else before.inputs[0])


def _gather(node: ir.Node, context: Context) -> bool:
    """Remove a Gather of all indices in their order."""
    facts, axis = context.facts, int(attributes(node).get("axis", 0))
    shape, indices = facts.shape(_first(node)), facts.constant(node.inputs[1])
    if shape is None or not shape or indices is None or indices.ndim != 1:
        return False
    return shape[axis] == len(indices) and indices.tolist() == list(range(len(indices))) and _bypass(node, context)


def _reduce(node: ir.Node, context: Context) -> bool:
    """Remove a maximum or minimum over axes of size 1."""
    attrs = attributes(node)
    if not attrs.get("keepdims", 1) or not has_same_shape(context.facts, _first(node), node.outputs[0]):
        return False
    if attrs.get("noop_with_empty_axes", 0) and not any(node.inputs[1:]) and "axes" not in attrs:
        return node.op_type in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceMean") and _bypass(
            node, context
        )
    shape = context.facts.shape(_first(node)) or ()
    is_exact = node.op_type in ("ReduceMax", "ReduceMin")
    axes = context.facts.integers(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else attrs.get("axes")
    chosen = (axes or range(len(shape))) if shape else ()  # onnxruntime accepts any axis of a scalar
    return is_exact and all(shape[axis] == 1 for axis in chosen) and _bypass(node, context)


def _concat(node: ir.Node, context: Context) -> bool:
    """Leave out empty operands."""
    if len(node.inputs) == 1:
        return _bypass(node, context)
    facts, axis = context.facts, attributes(node).get("axis", 1)
    shapes = [facts.shape(value) for value in node.inputs]
    kept = [
        value for value, shape in zip(node.inputs, shapes, strict=True) if shape is None or 0 not in shape[axis:][:1]
    ]
    if len(kept) == len(node.inputs) or not kept or any(shape is None for shape in shapes):
        return False
    if len(kept) == 1:
        return has_same_shape(facts, kept[0], node.outputs[0]) and _bypass(node, context, kept[0])
    return context.editor.substitute(node, "Concat", kept, {"axis": axis})


def _sequence_at(node: ir.Node, context: Context) -> bool:
    """Take the element of a sequence that is constructed from single values."""
    source = producer(node.inputs[0], "SequenceConstruct")
    position = context.facts.integers(node.inputs[1])
    if source is None or not position:
        return False
    index = position[0]
    return -len(source.inputs) <= index < len(source.inputs) and _bypass(node, context, source.inputs[index])


def _optional_element(node: ir.Node, context: Context) -> bool:
    source = producer(_first(node), "Optional")
    if source is not None and source.inputs and source.inputs[0] is not None:
        return _bypass(node, context, source.inputs[0])
    value = _first(node)
    is_plain = value is not None and isinstance(value.type, ir.TensorType | ir.SequenceType)
    return is_plain and context.facts.version >= 18 and _bypass(node, context)


NO_OPS: Final[Rules] = {
    "Abs": (_repeated,),
    "Add": (_neutral(0, -0.0, (0, 1)),),
    "And": (_neutral(True, None, (0, 1)),),
    "BitwiseAnd": (_neutral(-1, None, (0, 1)),),
    "BitwiseNot": (_repeated,),
    "BitwiseOr": (_neutral(0, None, (0, 1)),),
    "BitwiseXor": (_neutral(0, None, (0, 1)),),
    "Cast": (_if_same_type,),
    "CastLike": (_if_same_type,),
    "Ceil": (_repeated,),
    "Clip": (_clip,),
    "Concat": (_concat,),
    "Div": (_neutral(1, 1.0, (1,)),),
    "Dropout": (_dropout,),
    "Expand": (_if_same_shape,),
    "Flatten": (_if_same_shape,),
    "Floor": (_repeated,),
    "Gather": (_gather,),
    "Identity": (_always,),
    "Max": (_if_single,),
    "Mean": (_if_single,),
    "Min": (_if_single,),
    "Mul": (_neutral(1, 1.0, (0, 1)),),
    "Neg": (_repeated,),
    "Not": (_repeated,),
    "OptionalGetElement": (_optional_element,),
    "Or": (_neutral(False, None, (0, 1)),),
    "Pad": (_pad,),
    "Pow": (_power,),
    "ReduceMax": (_reduce,),
    "ReduceMean": (_reduce,),
    "ReduceMin": (_reduce,),
    "ReduceProd": (_reduce,),
    "ReduceSum": (_reduce,),
    "Relu": (_repeated,),
    "Reshape": (_if_same_shape,),
    "Round": (_repeated,),
    "SequenceAt": (_sequence_at,),
    "Slice": (_slice,),
    "Split": (_if_same_shape,),
    "Squeeze": (_if_same_shape,),
    "Sub": (_neutral(0, 0.0, (1,)),),
    "Sum": (_if_single,),
    "Tile": (_if_same_shape,),
    "Transpose": (_transpose,),
    "Unsqueeze": (_if_same_shape,),
    "Where": (_where,),
    "Xor": (_neutral(False, None, (0, 1)),),
}
"""Rules that remove nodes without effect."""
