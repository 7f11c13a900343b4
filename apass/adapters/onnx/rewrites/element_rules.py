"""Elements of short tensors of integers, computed from sizes that may be unknown."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import MAX_ELEMENTS, Dim, Known, Shape, product_of
from apass.adapters.onnx.rewrites.kernels import Call, evaluate

__all__ = ["ELEMENT_RULES"]


def _elements_of_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    shape = facts.shape(node.inputs[0])
    return None if shape is None else shape[attrs.get("start", 0) : attrs.get("end")]


def _elements_of_size(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    shape = facts.shape(node.inputs[0])
    return None if shape is None else (product_of(shape, facts.fresh),)


def _same_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    return facts.elements(node.inputs[0])


def _cast_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    # A size that does not fit into 32 bits would change.
    elements = facts.elements(node.inputs[0])
    if facts.dtype(node.outputs[0]) == ir.DataType.INT64:
        return elements
    is_known = elements is not None and all(isinstance(element, int) for element in elements)
    return elements if is_known and facts.dtype(node.outputs[0]) == ir.DataType.INT32 else None


def _gathered_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    elements, indices = facts.elements(node.inputs[0]), facts.integers(node.inputs[1])
    shape = facts.shape(node.inputs[0])
    if elements is None or indices is None or shape is None or len(shape) != 1 or attrs.get("axis", 0) not in (0, -1):
        return None
    return tuple(elements[index] for index in indices)


def _sliced_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    elements, shape = facts.elements(node.inputs[0]), facts.shape(node.inputs[0])
    operands = [facts.integers(value) for value in node.inputs[1:]]
    if elements is None or shape is None or len(shape) != 1 or not elements:
        return None
    if any(value is not None and numbers is None for value, numbers in zip(node.inputs[1:], operands, strict=True)):
        return None
    arrays = [None, *(None if numbers is None else np.array(numbers, np.int64) for numbers in operands)]
    positions = evaluate("Slice", Call(facts.version, attrs, [np.arange(len(elements)), *arrays[1:]]))
    return (
        None if positions is None else tuple(elements[int(index)] for index in cast("list[int]", positions[0].tolist()))
    )


def _joined_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    result: list[Dim] = []
    for value in node.inputs:
        elements, shape = facts.elements(value), facts.shape(value)
        if shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= MAX_ELEMENTS:
            result += [facts.fresh() for _ in range(shape[0])] if elements is None else elements
        else:
            return None
    return tuple(result)


def _arithmetic(function: Callable[[int, int], int | None], neutral: int, *, commutes: bool) -> Any:
    def rule(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
        left, right = facts.elements(node.inputs[0]), facts.elements(node.inputs[1])
        if not left or not right or facts.dtype(node.outputs[0]) != ir.DataType.INT64:
            return None
        count = max(len(left), len(right))
        if min(len(left), len(right)) not in (1, count):
            return None
        pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
        return tuple(combine(facts, one, other) for one, other in pairs)

    def combine(facts: Known, left: Dim, right: Dim) -> Dim:
        if isinstance(left, int) and isinstance(right, int):
            result = function(left, right)
            return facts.fresh() if result is None or not -(2**63) <= result < 2**63 else result
        if right == neutral:
            return left
        return right if commutes and left == neutral else facts.fresh()

    return rule


ELEMENT_RULES: Final[Mapping[str, Callable[[Known, ir.Node, Mapping[str, Any]], Shape | None]]] = {
    "Add": _arithmetic(lambda left, right: left + right, 0, commutes=True),
    "Cast": _cast_elements,
    "Concat": _joined_elements,
    "Div": _arithmetic(lambda left, right: left // right if left >= 0 and right > 0 else None, 1, commutes=False),
    "Gather": _gathered_elements,
    "Identity": _same_elements,
    "Mul": _arithmetic(lambda left, right: left * right, 1, commutes=True),
    "Reshape": _same_elements,
    "Shape": _elements_of_shape,
    "Size": _elements_of_size,
    "Slice": _sliced_elements,
    "Squeeze": _same_elements,
    "Sub": _arithmetic(lambda left, right: left - right, 0, commutes=False),
    "Unsqueeze": _same_elements,
}
"""Rules for results that can be computed from shapes with symbols."""
