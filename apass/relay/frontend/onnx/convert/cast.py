"""Conversions between element types."""

from typing import Final

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.frontend.onnx.protos import dtype_of
from apass.relay.ir.expr import Expr, const

__all__ = ["GREATEST", "TABLE", "saturated"]

GREATEST: Final = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
}
"""The largest finite numbers of the 8-bit float types; by default, larger numbers saturate to them."""

POWERS: Final = "float8_e8m0fnu"
"""The element type with only an exponent: it represents powers of two."""

UNSUPPORTED: Final = frozenset({"object", "complex64", "complex128"})
"""Element types without a conversion in Relay."""


def cast(node: Node) -> Expr:
    """Return the elements converted to the type given by an attribute."""
    to = node.attributes.get("to")
    dtype = to.lower() if isinstance(to, str) else dtype_of(node.integer("to"))
    return converted(node, {"float": "float32", "double": "float64"}.get(dtype, dtype))


def cast_like(node: Node) -> Expr:
    """Return the elements converted to the type of another tensor."""
    return converted(node, node.dtype(node[1]))


def converted(node: Node, dtype: str) -> Expr:
    """Return the first input converted to an element type."""
    data = node[0]
    if dtype == node.dtype(data):
        return data
    if UNSUPPORTED & {dtype, node.dtype(data)}:
        raise node.unsupported(f"Relay has no conversion from {node.dtype(data)} to {dtype}")
    if dtype == POWERS:
        return power_of_two(node, as_dtype(node, data, "float32"))
    return saturated(node, data, dtype) if node.integer("saturate", 1) else op.cast(data, dtype)


def power_of_two(node: Node, data: Expr) -> Expr:
    """Return 32-bit floats rounded to powers of two, computed on their bits."""
    carry = {"up": 0x7FFFFF, "nearest": 0x400000, "down": 0}[node.text("round_mode", "up")]
    bits = op.bitwise_and(op.reinterpret(data, "uint32"), const(0x7FFFFFFF, "uint32"))
    exponent = op.right_shift(op.add(bits, const(carry, "uint32")), const(23, "uint32"))
    greatest = const(254 if node.integer("saturate", 1) else 255, "uint32")
    is_finite = op.less(bits, const(0x7F800000, "uint32"))
    chosen = op.where(is_finite, op.minimum(exponent, greatest), const(255, "uint32"))
    return op.reinterpret(op.cast(chosen, "uint8"), POWERS)


def saturated(node: Node, data: Expr, dtype: str) -> Expr:
    """Return the elements converted, saturated if the type is an 8-bit float."""
    greatest = GREATEST.get(dtype)
    if greatest is None or not node.is_float(data):
        return op.cast(data, dtype)
    return op.cast(op.clip(data, -greatest, greatest), dtype)


def bit_cast(node: Node) -> Expr:
    """Return the bits of the elements reinterpreted as another type of the same size."""
    return op.reinterpret(node[0], dtype_of(node.integer("to")))


TABLE: Final[Table] = {
    ("", "BitCast", 26): bit_cast,
    ("", "Cast", 1): cast,
    ("", "CastLike", 15): cast_like,
}
"""The converters of this module."""
