"""Operators that are spelled out, as exporters of old operator sets write them."""

from collections.abc import Iterator
from typing import Final

import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.facts import Facts
from apass.adapters.onnx.rewrites.merging import is_used_once, producer, reduced_axes

__all__ = ["gelu_operand", "is_close", "normalized", "number_of"]

CLOSE: Final = 1e-6
"""Constants that differ by so much relatively are equal, as 0.16666667 and 1/6 are."""

_ROOT: Final = 2**0.5


def number_of(value: ir.Value | None, facts: Facts) -> float | None:
    """Return a constant of one floating-point number."""
    array = facts.constant(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind == "f" else None


def is_close(number: float | None, expected: float) -> bool:
    """Return whether a number is the expected one, up to rounding."""
    return number is not None and abs(number - expected) <= CLOSE * abs(expected)


def gelu_operand(node: ir.Node, facts: Facts) -> ir.Value | None:
    """Return the operand of a Gelu whose last node is `node`, or None.

    A Gelu is `x * (1 + erf(x / sqrt(2))) / 2`. The three factors may be multiplied in any order.
    """
    if node.op_type != "Mul":
        return None
    factors = [factor for value in node.inputs for factor in _factors(value)]
    if len(factors) != 3 or not any(is_close(number_of(factor, facts), 0.5) for factor in factors):
        return None
    for factor in factors:
        operand = _erf_operand(factor, facts)
        if operand is not None and any(operand is other for other in factors):
            return operand
    return None


def _factors(value: ir.Value | None) -> list[ir.Value | None]:
    before = producer(value, "Mul")
    return [value] if before is None or value is None or not is_used_once(value) else list(before.inputs)


def _erf_operand(value: ir.Value | None, facts: Facts) -> ir.Value | None:
    """Return `x` of `1 + erf(x / sqrt(2))`."""
    for erf, one in _orders(producer(value, "Add")):
        scaled = producer(erf, "Erf")
        if scaled is None or not is_close(number_of(one, facts), 1.0):
            continue
        division = producer(scaled.inputs[0], "Div")
        if division is not None and is_close(number_of(division.inputs[1], facts), _ROOT):
            return division.inputs[0]
        for operand, factor in _orders(producer(scaled.inputs[0], "Mul")):
            if is_close(number_of(factor, facts), 1 / _ROOT):
                return operand
    return None


def normalized(node: ir.Node, facts: Facts) -> tuple[ir.Value, float] | None:
    """Return the operand and the epsilon of a normalization, or None.

    It is `d / sqrt(mean(d * d) + epsilon)` with `d = x - mean(x)`, over the last axis. `node` is its division.
    """
    if node.op_type != "Div":
        return None
    difference, root = producer(node.inputs[0], "Sub"), producer(node.inputs[1], "Sqrt")
    if difference is None or root is None:
        return None
    source = difference.inputs[0]
    if source is None or _mean_operand(difference.inputs[1], facts) is not source:
        return None
    for mean, epsilon in _orders(producer(root.inputs[0], "Add")):
        square, number = _mean_operand(mean, facts), number_of(epsilon, facts)
        if number is not None and number > 0 and _is_square_of(square, difference.outputs[0], facts):
            return source, number
    return None


def _mean_operand(value: ir.Value | None, facts: Facts) -> ir.Value | None:
    """Return the operand of a mean over the last axis, which it keeps."""
    mean = producer(value, "ReduceMean")
    shape = None if mean is None else facts.shape(mean.inputs[0])
    if mean is None or not shape or attributes(mean).get("keepdims", 1) != 1:
        return None
    return mean.inputs[0] if reduced_axes(mean, len(shape), facts) == [len(shape) - 1] else None


def _is_square_of(value: ir.Value | None, root: ir.Value, facts: Facts) -> bool:
    square = producer(value, "Mul", "Pow")
    if square is None or square.inputs[0] is not root:
        return False
    return square.inputs[1] is root if square.op_type == "Mul" else number_of(square.inputs[1], facts) == 2.0


def _orders(node: ir.Node | None) -> Iterator[tuple[ir.Value | None, ir.Value | None]]:
    """Iterate over both orders of the operands of a node."""
    if node is not None:
        left, right = node.inputs
        yield left, right
        yield right, left
