"""Scales and shifts by constants move into the weights of the nodes beside them.

A Conv whose result is multiplied by a constant is a Conv with other weights. The same holds for a constant that is
added, for a normalization, and for the other operators with weights. Last digits change.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.affine import FLOATS, SMALL, Affine, affine_of, is_inference, weights_of
from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.engine import Context, Rules
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.kernels import Array
from apass.adapters.onnx.rewrites.merging import is_used_once, keeps_shape, producer
from apass.adapters.onnx.rewrites.patterns import gelu_operand

__all__ = ["WEIGHTS"]

MAX_DEPTH: Final = 8
"""Maximum number of nodes through which a scale or a shift moves to the weights."""

Edit = Callable[[], object]
"""A change of a node."""

Edits = list[Edit] | None
"""The changes with which a node computes an affine function of its result; None if it cannot."""


def _rounded(array: Array, dtype: Any) -> Array | None:
    """Return numbers in a type; None if some are lost."""
    with np.errstate(all="ignore"):
        result = np.asarray(array.astype(dtype))
        smallest = np.finfo(dtype).smallest_normal
        is_lost = (np.abs(result) < smallest) & (np.abs(array) > 0)
    return None if is_lost.any() or not np.isfinite(result).all() else result


def _move_up(node: ir.Node, context: Context) -> bool:
    """Let the nodes before a scale or a shift compute it."""
    found = affine_of(node, context.facts)
    if found is None:
        return False
    source, function = found
    before = source.producer()
    if before is None or before.graph is not node.graph:
        return False
    edits = _absorbed(source, function, context, MAX_DEPTH)
    if edits is None:
        return False
    context.editor.start_change()
    for edit in edits:
        edit()
    return context.editor.bypass(node, source)


def _absorbed(value: ir.Value | None, function: Affine, context: Context, depth: int) -> Edits:
    """Return the edits after which a value is a function of what it is now."""
    before = None if value is None else value.producer()
    if value is None or before is None or not depth or not is_used_once(value) or not context.facts.knows(before):
        return None
    if context.facts.dtype(value) not in FLOATS or not context.editor.can_hold(before):
        return None
    if gelu_operand(before, context.facts) is not None:
        return None
    absorb = _ABSORBERS.get(before.op_type)
    return None if absorb is None else absorb(before, function, context, depth - 1)


def _replaced(node: ir.Node, index: int, array: Array, context: Context, dtype: Any) -> Edits:
    """Return the edit that replaces an operand by numbers."""
    numbers = _rounded(array, dtype)
    if numbers is None:
        return None

    def edit() -> None:
        if index >= len(node.inputs):
            node.resize_inputs(index + 1)
        context.editor.set_input(node, index, context.editor.constant(node, numbers))

    return [edit]


def _joined(*parts: Edits) -> Edits:
    edits: list[Edit] = []
    for part in parts:
        if part is None:
            return None
        edits += part
    return edits


def _bias(node: ir.Node, index: int, dtype: Any) -> Array | None:
    """Return the numbers of an operand, or zero; None if they are not constant."""
    if len(node.inputs) <= index or node.inputs[index] is None:
        return np.zeros((), dtype)
    return weights_of(node.inputs[index])


def _in_convolution(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    weights = weights_of(node.inputs[1])
    if weights is None:
        return None
    is_transposed = node.op_type == "ConvTranspose"
    group = attributes(node).get("group", 1)
    channels = weights.shape[1] * group if is_transposed else weights.shape[0]
    vectors = function.per_axis(weights.ndim, 1 - weights.ndim, channels)
    bias = _bias(node, 2, weights.dtype)
    if vectors is None or bias is None:
        return None
    scale = np.ones(channels) if vectors.scale is None else vectors.scale
    edits: list[Edits] = []
    if vectors.scale is not None:
        # The weights of a transposed convolution have the input channels first, and then those of one group.
        factors = np.repeat(scale.reshape(group, -1), weights.shape[0] // group, 0) if is_transposed else scale
        shape = factors.shape if is_transposed else (channels, 1)
        scaled = weights * factors.reshape(*shape, *[1] * (weights.ndim - 2))
        edits.append(_replaced(node, 1, scaled, context, weights.dtype))
    if vectors.shift is not None or bias.ndim:
        shifted = bias * scale + (0.0 if vectors.shift is None else vectors.shift)
        edits.append(_replaced(node, 2, shifted, context, weights.dtype))
    return _joined(*edits)


def _in_gemm(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    attrs, weights = attributes(node), weights_of(node.inputs[1])
    bias = _bias(node, 2, np.float32)
    if weights is None or bias is None or weights.ndim != 2:
        return None
    transposed = bool(attrs.get("transB", 0))
    vectors = function.per_axis(2, -1, weights.shape[0 if transposed else 1])
    if vectors is None:
        return None
    scale = np.ones(()) if vectors.scale is None else vectors.scale
    edits: list[Edits] = []
    if vectors.scale is not None:
        edits.append(_replaced(node, 1, weights * (scale[:, None] if transposed else scale), context, weights.dtype))
    if vectors.shift is not None or bias.ndim:
        shifted = attrs.get("beta", 1.0) * bias * scale + (0.0 if vectors.shift is None else vectors.shift)
        if shifted.size > max(bias.size, SMALL):
            return None
        edits.append(_replaced(node, 2, shifted, context, weights.dtype))
        edits.append([partial(node.attributes.pop, "beta", None)])
    return _joined(*edits)


def _in_matmul(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    if function.shift is not None or function.scale is None:
        return None
    weights = weights_of(node.inputs[1])
    if weights is not None and weights.ndim == 2:
        vectors = function.per_axis(len(context.facts.shape(node.outputs[0]) or (0, 0)), -1, weights.shape[1])
        if vectors is not None and vectors.scale is not None:
            return _replaced(node, 1, weights * vectors.scale, context, weights.dtype)
    return _in_an_operand(node, function, context, depth)


def _in_an_operand(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    """Scale one of the operands of a product."""
    if not function.is_scalar or function.shift is not None or node.inputs[0] is node.inputs[1]:
        return None
    left = _absorbed(node.inputs[0], function, context, depth)
    return left if left is not None else _absorbed(node.inputs[1], function, context, depth)


def _in_sum(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    """Add another constant to a scaled operand."""
    found = affine_of(node, context.facts)
    if found is None:
        return None
    source, own = found
    index = 1 if node.inputs[0] is source else 0
    shift = np.zeros(()) if own.shift is None else own.shift
    scale = np.ones(()) if function.scale is None else function.scale
    total = shift * scale + (0.0 if function.shift is None else function.shift)
    # The constant is subtracted, or the operand is.
    total = -total if node.op_type == "Sub" and index == 1 else total
    if weights_of(node.inputs[index]) is None or total.size > max(shift.size, SMALL):
        return None
    dtype = context.facts.dtype(node.outputs[0])
    assert dtype is not None
    edit = _replaced(node, index, total, context, dtype.numpy())
    if function.scale is None:
        return edit
    return _joined(_absorbed(source, Affine(function.scale), context, depth), edit)


def _in_product(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    """Multiply by another constant, or scale an operand."""
    if function.shift is not None or function.scale is None:
        return None
    for index in (1, 0):
        constant, source = weights_of(node.inputs[index]), node.inputs[1 - index]
        if constant is None:
            continue
        if source is None or not keeps_shape(context.facts, constant, source):
            return None
        is_divisor = node.op_type == "Div" and index == 1
        with np.errstate(all="ignore"):
            other = constant / function.scale if is_divisor else constant * function.scale
        return (
            None if other.size > max(constant.size, SMALL) else _replaced(node, index, other, context, constant.dtype)
        )
    return _in_an_operand(node, function, context, depth) if node.op_type == "Mul" else None


def _in_normalization(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    """Scale and shift what a normalization multiplies by and adds."""
    if node.op_type == "BatchNormalization" and not is_inference(node, context.facts):
        return None
    scale, shape = weights_of(node.inputs[1]), context.facts.shape(node.outputs[0])
    if scale is None or scale.ndim != 1 or shape is None:
        return None
    bias = _bias(node, 2, scale.dtype)
    is_last = node.op_type == "LayerNormalization"
    vectors = function.per_axis(len(shape), -1 if is_last else 1 - len(shape), scale.size)
    if bias is None or vectors is None or any(value.uses() or value.is_graph_output() for value in node.outputs[1:]):
        return None
    factor = np.ones(()) if vectors.scale is None else vectors.scale
    edits: list[Edits] = []
    if vectors.scale is not None:
        edits.append(_replaced(node, 1, scale * factor, context, scale.dtype))
    if vectors.shift is not None or bias.ndim:
        shifted = bias * factor + (0.0 if vectors.shift is None else vectors.shift)
        edits.append(_replaced(node, 2, shifted, context, scale.dtype))
    return _joined(*edits)


def _in_dequantization(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
    """Scale the scale of quantized weights."""
    scale = weights_of(node.inputs[1])
    if scale is None or function.shift is not None or function.scale is None or function.scale.size != 1:
        return None
    return _replaced(node, 1, scale * function.scale.reshape(()), context, scale.dtype)


def _through(
    condition: Callable[[Affine, ir.Node, Facts], bool],
) -> Callable[[ir.Node, Affine, Context, int], Edits]:
    """Return a function for operators before which the affine function is computed."""

    def absorb(node: ir.Node, function: Affine, context: Context, depth: int) -> Edits:
        others = (value.uses() or value.is_graph_output() for value in node.outputs[1:])
        if not condition(function, node, context.facts) or any(others):
            return None
        return _absorbed(node.inputs[0], function, context, depth)

    return absorb


def _is_per_channel(function: Affine, node: ir.Node, facts: Facts) -> bool:
    shape = facts.shape(node.outputs[0])
    if shape is None or len(shape) < 2:
        return False
    channels = shape[1]
    return isinstance(channels, int) and function.per_axis(len(shape), 1 - len(shape), channels) is not None


_VIEW: Final = _through(lambda function, node, facts: function.is_scalar)
_MAXIMUM: Final = _through(
    lambda function, node, facts: function.is_increasing and _is_per_channel(function, node, facts)
)
_MEAN: Final = _through(lambda function, node, facts: function.shift is None and _is_per_channel(function, node, facts))
_RECTIFIER: Final = _through(lambda function, node, facts: function.shift is None and function.is_increasing)


_ABSORBERS: Final[Mapping[str, Callable[[ir.Node, Affine, Context, int], Edits]]] = {
    "Add": _in_sum,
    "AveragePool": _MEAN,
    "BatchNormalization": _in_normalization,
    "Conv": _in_convolution,
    "ConvTranspose": _in_convolution,
    "DequantizeLinear": _in_dequantization,
    "Div": _in_product,
    "Flatten": _VIEW,
    "Gemm": _in_gemm,
    "GlobalAveragePool": _MEAN,
    "InstanceNormalization": _in_normalization,
    "LayerNormalization": _in_normalization,
    "LeakyRelu": _RECTIFIER,
    "MatMul": _in_matmul,
    "MaxPool": _MAXIMUM,
    "Mul": _in_product,
    "Relu": _RECTIFIER,
    "Reshape": _VIEW,
    "Squeeze": _VIEW,
    "Sub": _in_sum,
    "Transpose": _VIEW,
    "Unsqueeze": _VIEW,
}
"""How the operators compute an affine function of their result themselves."""


def _move_down(node: ir.Node, context: Context) -> bool:
    """Let a node with weights compute a scale or a shift of its operand."""
    facts, source = context.facts, node.inputs[0]
    before = producer(source, "Add", "BatchNormalization", "Div", "Mul", "Sub")
    if before is None or source is None or not is_used_once(source) or not context.editor.can_hold(node):
        return False
    found, weights = affine_of(before, facts), weights_of(node.inputs[1])
    if found is None or weights is None:
        return False
    value, function = found
    edits = _DOWN[node.op_type](node, function, weights, context)
    if edits is None:
        return False
    context.editor.start_change()
    for edit in edits:
        edit()
    context.editor.set_input(node, 0, value)
    return True


def _down_convolution(node: ir.Node, function: Affine, weights: Array, context: Context) -> Edits:
    attrs = attributes(node)
    # The padding is 0 and has no shift.
    is_padded = any(attrs.get("pads", ())) or attrs.get("auto_pad", b"NOTSET") not in (
        "NOTSET",
        "VALID",
        b"NOTSET",
        b"VALID",
    )
    if is_padded and function.shift is not None:
        return None
    group = attrs.get("group", 1)
    vectors = function.per_axis(weights.ndim, 1 - weights.ndim, weights.shape[1] * group)
    bias = _bias(node, 2, weights.dtype)
    if vectors is None or bias is None:
        return None

    def by_input(vector: Array) -> Array:
        """Return the numbers of the input channels for each of the weights."""
        rows = np.repeat(vector.reshape(group, -1), weights.shape[0] // group, 0)
        return rows.reshape(*weights.shape[:2], *[1] * (weights.ndim - 2))

    edits: list[Edits] = []
    if vectors.scale is not None:
        edits.append(_replaced(node, 1, weights * by_input(vectors.scale), context, weights.dtype))
    if vectors.shift is not None:
        added = (weights * by_input(vectors.shift)).reshape(weights.shape[0], -1).sum(1, dtype=np.float64)
        edits.append(_replaced(node, 2, bias + added, context, weights.dtype))
    return _joined(*edits)


def _down_gemm(node: ir.Node, function: Affine, weights: Array, context: Context) -> Edits:
    attrs = attributes(node)
    bias = _bias(node, 2, weights.dtype)
    if attrs.get("transA", 0) or bias is None or weights.ndim != 2:
        return None
    transposed = bool(attrs.get("transB", 0))
    vectors = function.per_axis(2, -1, weights.shape[1 if transposed else 0])
    if vectors is None:
        return None
    by_rows = weights.T if transposed else weights
    edits: list[Edits] = []
    if vectors.scale is not None:
        scaled = by_rows * vectors.scale[:, None]
        edits.append(_replaced(node, 1, scaled.T if transposed else scaled, context, weights.dtype))
    if vectors.shift is not None:
        added = attrs.get("alpha", 1.0) * (vectors.shift @ by_rows.astype(np.float64))
        edits.append(_replaced(node, 2, attrs.get("beta", 1.0) * bias + added, context, weights.dtype))
        edits.append([partial(node.attributes.pop, "beta", None)])
    return _joined(*edits)


def _down_matmul(node: ir.Node, function: Affine, weights: Array, context: Context) -> Edits:
    shape = context.facts.shape(node.inputs[0])
    if function.shift is not None or function.scale is None or weights.ndim != 2 or shape is None:
        return None
    vectors = function.per_axis(len(shape), -1, weights.shape[0])
    if vectors is None or vectors.scale is None:
        return None
    return _replaced(node, 1, weights * vectors.scale[:, None], context, weights.dtype)


_DOWN: Final[Mapping[str, Callable[[ir.Node, Affine, Array, Context], Edits]]] = {
    "Conv": _down_convolution,
    "Gemm": _down_gemm,
    "MatMul": _down_matmul,
}

WEIGHTS: Final[Rules] = {
    **dict.fromkeys(("Add", "BatchNormalization", "Div", "Mul", "Sub"), (_move_up,)),
    **dict.fromkeys(_DOWN, (_move_down,)),
}
"""Rules that move scales and shifts into weights."""
