"""Elements of short tensors of integers, computed from sizes that may be unknown."""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import MAX_ELEMENTS, Dim, Known, Shape
from apass.adapters.onnx.rewrites.kernels import Call, evaluate

__all__ = ["CONDITION_RULES", "ELEMENT_RULES"]


def _elements_of_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    shape = facts.shape(node.inputs[0])
    return None if shape is None else shape[attrs.get("start", 0) : attrs.get("end")]


def _elements_of_size(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    shape = facts.shape(node.inputs[0])
    return None if shape is None else (facts.products.of(shape),)


def _same_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    return facts.elements(node.inputs[0])


def _cast_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    elements = facts.elements(node.inputs[0])
    if elements is None or facts.dtype(node.outputs[0]) == ir.DataType.INT64:
        return elements
    # A number of more than 32 bits would change. No tensor in memory has a dimension of such a size.
    is_short = all(isinstance(element, int) or facts.is_size(element) for element in elements)
    return elements if is_short and facts.dtype(node.outputs[0]) == ir.DataType.INT32 else None


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


def _product(facts: Known, left: Dim, right: Dim) -> Dim | None:
    """Return the product of a size and a positive number, or of two sizes."""
    if not all(facts.is_size(dim) or (isinstance(dim, int) and dim > 0) for dim in (left, right)):
        return None
    return facts.products.of([left, right])


def _quotient(facts: Known, left: Dim, right: Dim) -> Dim | None:
    """Return the quotient of a size and a positive number that divides it."""
    return facts.products.quotient([left], [right]) if isinstance(right, int) and right > 0 else None


def _arithmetic(
    function: Callable[[int, int], int | None],
    neutral: int,
    *,
    commutes: bool,
    symbolic: Callable[[Known, Dim, Dim], Dim | None] = lambda facts, left, right: None,
) -> Any:
    def rule(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
        left, right = facts.elements(node.inputs[0]), facts.elements(node.inputs[1])
        dtype = facts.dtype(node.outputs[0])
        if not left or not right or dtype not in (ir.DataType.INT64, ir.DataType.INT32):
            return None
        limit = 2 ** (63 if dtype == ir.DataType.INT64 else 31)
        count = max(len(left), len(right))
        if min(len(left), len(right)) not in (1, count):
            return None
        pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
        return tuple(combine(facts, one, other, limit) for one, other in pairs)

    def combine(facts: Known, left: Dim, right: Dim, limit: int) -> Dim:
        if isinstance(left, int) and isinstance(right, int):
            result = function(left, right)
            return facts.fresh() if result is None or not -limit <= result < limit else result
        if right == neutral:
            return left
        if commutes and left == neutral:
            return right
        found = symbolic(facts, left, right)
        return facts.fresh() if found is None else found

    return rule


def _chosen_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    condition = facts.constant(node.inputs[0])
    left, right = facts.elements(node.inputs[1]), facts.elements(node.inputs[2])
    if condition is None or not left or not right or condition.ndim > 1:
        return None
    count = max(condition.size, len(left), len(right))
    if not {condition.size, len(left), len(right)} <= {1, count}:
        return None
    flags = np.broadcast_to(condition.reshape(-1), count)
    pairs = zip(flags, left * (count // len(left)), right * (count // len(right)), strict=True)
    return tuple(one if flag else other for flag, one, other in pairs)


def _expanded_elements(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    elements, target = facts.elements(node.inputs[0]), facts.elements(node.inputs[1])
    if not elements or len(elements) != 1 or target is None or len(target) != 1 or not isinstance(target[0], int):
        return elements if target in ((1,), ()) else None
    return elements * max(target[0], 1)


def _largest(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Shape | None:
    """Return the elements of a maximum or a minimum of equal sizes."""
    operands = [facts.elements(value) for value in node.inputs]
    return operands[0] if all(operand == operands[0] for operand in operands) else None


Condition = list[bool] | None
"""The truth values of a comparison; None if one of them is not known."""


def _compared(known: Callable[[Known, Dim, Dim], bool | None]) -> Callable[[Known, ir.Node], Condition]:
    def rule(facts: Known, node: ir.Node) -> Condition:
        left, right = facts.elements(node.inputs[0]), facts.elements(node.inputs[1])
        if not left or not right or min(len(left), len(right)) not in (1, max(len(left), len(right))):
            return None
        count = max(len(left), len(right))
        pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
        result: list[bool] = []
        for one, other in pairs:
            flag = known(facts, one, other)
            if flag is None:
                return None
            result.append(flag)
        return result

    return rule


def _is_less(facts: Known, left: Dim, right: Dim) -> bool | None:
    """Return whether one element is less than another; sizes are not negative."""
    if isinstance(left, int) and isinstance(right, int):
        return left < right
    if left == right:
        return False
    if isinstance(left, int) and left < 0 and facts.is_size(right):
        return True
    return False if isinstance(right, int) and right <= 0 and facts.is_size(left) else None


def _are_equal(facts: Known, left: Dim, right: Dim) -> bool | None:
    if left == right or (isinstance(left, int) and isinstance(right, int)):
        return left == right
    return (
        False
        if any(isinstance(dim, int) and dim < 0 for dim in (left, right))
        and (facts.is_size(left) or facts.is_size(right))
        else None
    )


def _not(flag: bool | None) -> bool | None:
    return None if flag is None else not flag


CONDITION_RULES: Final[Mapping[str, Callable[[Known, ir.Node], Condition]]] = {
    "Equal": _compared(_are_equal),
    "Greater": _compared(lambda facts, left, right: _is_less(facts, right, left)),
    "GreaterOrEqual": _compared(lambda facts, left, right: _not(_is_less(facts, left, right))),
    "Less": _compared(_is_less),
    "LessOrEqual": _compared(lambda facts, left, right: _not(_is_less(facts, right, left))),
}
"""Rules for comparisons of sizes."""

ELEMENT_RULES: Final[Mapping[str, Callable[[Known, ir.Node, Mapping[str, Any]], Shape | None]]] = {
    "Add": _arithmetic(lambda left, right: left + right, 0, commutes=True),
    "Cast": _cast_elements,
    "Concat": _joined_elements,
    "Div": _arithmetic(
        lambda left, right: left // right if left >= 0 and right > 0 else None, 1, commutes=False, symbolic=_quotient
    ),
    "Expand": _expanded_elements,
    "Gather": _gathered_elements,
    "Identity": _same_elements,
    "Max": _largest,
    "Min": _largest,
    "Mul": _arithmetic(lambda left, right: left * right, 1, commutes=True, symbolic=_product),
    "Reshape": _same_elements,
    "Shape": _elements_of_shape,
    "Size": _elements_of_size,
    "Slice": _sliced_elements,
    "Squeeze": _same_elements,
    "Sub": _arithmetic(lambda left, right: left - right, 0, commutes=False),
    "Unsqueeze": _same_elements,
    "Where": _chosen_elements,
}
"""Rules for results that can be computed from shapes with symbols."""
