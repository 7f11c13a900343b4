"""Elementwise arithmetic."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Final, TypeAlias

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.node import Converter, Node, Table
from apass.relay.ir.expr import Call, Expr

__all__ = ["TABLE", "aligned", "as_dtype", "binary", "unary"]

Unary: TypeAlias = Callable[[Expr], Expr]
Binary: TypeAlias = Callable[[Expr, Expr], Expr]


def unary(make: Unary) -> Converter:
    """Return the converter of an operator with a unary Relay equivalent."""
    return lambda node: make(node[0])


def binary(make: Binary) -> Converter:
    """Return the converter of an operator with a binary Relay equivalent."""
    return lambda node: make(node[0], aligned(node))


def aligned(node: Node) -> Expr:
    """Return the second operand, ready to be broadcast against the first.

    Before version 7, attributes determine the axes along which it is broadcast.
    """
    left, right = node[0], node[1]
    if node.version >= 7 or not node.integer("broadcast", 0):
        return right
    difference = node.rank(left) - node.rank(right)
    axis = node.integer("axis", difference)
    missing = difference - axis if axis >= 0 else 0
    return op.expand_dims(right, axis=node.rank(right), num_newaxis=missing) if missing else right


def as_dtype(node: Node, expr: Expr, dtype: str) -> Expr:
    """Return an expression cast to an element type, or itself if it has that type."""
    return expr if node.dtype(expr) == dtype else op.cast(expr, dtype)


def fold_left(make: Binary, node: Node) -> Expr:
    """Return the left fold of a binary operator over any number of operands."""
    return reduce(make, node.present_inputs())


def mean(node: Node) -> Expr:
    """Return the elementwise mean of any number of operands."""
    operands = node.present_inputs()
    return op.divide(reduce(op.add, operands), node.constant(len(operands), operands[0]))


def divide(node: Node) -> Expr:
    """Return the quotient; the quotient of integers is truncated."""
    return op.divide(node[0], aligned(node))


def reciprocal(node: Node) -> Expr:
    """Return the reciprocal of each element."""
    return op.divide(node.constant(1, node[0]), node[0])


def power(node: Node) -> Expr:
    """Return the power, in the element type of the base."""
    base, exponent = node[0], aligned(node)
    kinds = node.is_float(base), node.is_float(exponent)
    dtype = node.dtype(base)
    if kinds == (False, True):
        wide = op.power(op.cast(base, "float64"), as_dtype(node, exponent, "float64"))
        return op.cast(wide, dtype)
    return op.power(base, as_dtype(node, exponent, dtype))


def modulo(node: Node) -> Expr:
    """Return the remainder: with the sign of the dividend if `fmod`, else the divisor."""
    if node.integer("fmod", 0):
        return op.mod(node[0], node[1])
    if node.is_float(node[0]):
        return _floor_mod_of_floats(node, node[0], node[1])
    return op.floor_mod(node[0], node[1])


def _floor_mod_of_floats(node: Node, left: Expr, right: Expr) -> Expr:
    """Return the remainder with the sign of the divisor."""
    # fmod is exact; a - floor(a / b) * b is not. So correct the sign of the result of fmod.
    rest = op.mod(left, right)
    zero = node.constant(0, left)
    differ = op.not_equal(op.less(rest, zero), op.less(right, zero))
    other_sign = op.logical_and(op.not_equal(rest, zero), differ)
    return op.where(other_sign, op.add(rest, right), rest)


def round_half_even(node: Node, data: Expr) -> Expr:
    """Return the nearest integers; ties go to the even one."""
    low = op.floor(data)
    rest = op.subtract(data, low)
    half, two, zero = (node.constant(number, data) for number in (0.5, 2, 0))
    is_odd = op.not_equal(op.subtract(low, op.multiply(two, op.floor(op.multiply(half, low)))), zero)
    goes_up = op.logical_or(op.greater(rest, half), op.logical_and(op.equal(rest, half), is_odd))
    return op.where(goes_up, op.ceil(data), low)


def round_elements(node: Node) -> Expr:
    """Return the nearest integers; ties go to the even one."""
    return round_half_even(node, node[0])


def clip_to_attributes(node: Node) -> Expr:
    """Return the elements clipped to bounds that are attributes."""
    low, high = (node.number(name) if name in node.attributes else None for name in ("min", "max"))
    return bounded(node, node[0], low, high)


def bounded(node: Node, data: Expr, low: float | None, high: float | None) -> Expr:
    """Return the elements clipped to bounds; None means no bound."""
    if low is not None and high is not None and node.is_float(data):
        return op.clip(data, low, high)
    above = data if low is None else op.maximum(data, node.constant(low, data))
    return above if high is None else op.minimum(above, node.constant(high, data))


def clip(node: Node) -> Expr:
    """Return the elements clipped to bounds that are inputs."""
    data, low, high = node[0], node.get(1), node.get(2)
    bounds = [node.constant_value(bound) for bound in (low, high)]
    if node.is_float(data) and bounds[0] is not None and bounds[1] is not None:
        return op.clip(data, *(float(bound.reshape(-1).tolist()[0]) for bound in bounds if bound is not None))
    above = data if low is None else op.maximum(data, low)
    return above if high is None else op.minimum(above, high)


def shift_bits(node: Node) -> Expr:
    """Return the bits shifted by a distance.

    A distance that is negative or at least the number of bits results in the fill bits alone.
    """
    data, distance = node[0], node[1]
    width = np.dtype(node.dtype(data)).itemsize * 8
    to_right = node.text("direction") == "RIGHT"
    make: Binary = op.right_shift if to_right else op.left_shift
    limit, zero = node.constant(width - 1, distance), node.constant(0, distance)
    is_out_of_range = op.logical_or(op.greater(distance, limit), op.less(distance, zero))
    inside = op.where(is_out_of_range, zero, distance)
    fill = op.right_shift(data, limit) if to_right and "u" not in node.dtype(data) else node.constant(0, data)
    return op.where(is_out_of_range, fill, make(data, inside))


UNARY: Final[dict[str, Callable[[Expr], Call]]] = {
    "Abs": op.abs,
    "Acos": op.acos,
    "Acosh": op.acosh,
    "Asin": op.asin,
    "Asinh": op.asinh,
    "Atan": op.atan,
    "Atanh": op.atanh,
    "BitwiseNot": op.bitwise_not,
    "Ceil": op.ceil,
    "Cos": op.cos,
    "Cosh": op.cosh,
    "Erf": op.erf,
    "Exp": op.exp,
    "Floor": op.floor,
    "Log": op.log,
    "Neg": op.negative,
    "Sigmoid": op.sigmoid,
    "Sign": op.sign,
    "Sin": op.sin,
    "Sinh": op.sinh,
    "Sqrt": op.sqrt,
    "Tan": op.tan,
    "Tanh": op.tanh,
}
"""Unary operators with a Relay equivalent."""

SINCE: Final = {
    **dict.fromkeys(("Acos", "Asin", "Atan", "Cos", "Sin", "Tan"), 7),
    **dict.fromkeys(("Acosh", "Asinh", "Atanh", "Cosh", "Erf", "Sign", "Sinh"), 9),
    "BitwiseNot": 18,
}
"""The operator set version that introduced an operator, if not 1."""

TABLE: Final[Table] = {
    **{("", name, SINCE.get(name, 1)): unary(make) for name, make in UNARY.items()},
    ("", "Add", 1): binary(op.add),
    ("", "BitShift", 11): shift_bits,
    ("", "BitwiseAnd", 18): binary(op.bitwise_and),
    ("", "BitwiseOr", 18): binary(op.bitwise_or),
    ("", "BitwiseXor", 18): binary(op.bitwise_xor),
    ("", "Clip", 1): clip_to_attributes,
    ("", "Clip", 11): clip,
    ("", "Div", 1): binary(op.divide),
    ("", "Max", 1): partial(fold_left, op.maximum),
    ("", "Mean", 1): mean,
    ("", "Min", 1): partial(fold_left, op.minimum),
    ("", "Mod", 10): modulo,
    ("", "Mul", 1): binary(op.multiply),
    ("", "Pow", 1): power,
    ("", "Reciprocal", 1): reciprocal,
    ("", "Round", 11): round_elements,
    ("", "Sub", 1): binary(op.subtract),
    ("", "Sum", 1): partial(fold_left, op.add),
}
"""The converters of this module."""
