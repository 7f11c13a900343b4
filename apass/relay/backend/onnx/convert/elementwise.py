"""Elementwise arithmetic, comparisons, logic and bits."""

from typing import Final

import numpy as np

from apass.relay.backend.onnx.element_types import elem_type
from apass.relay.backend.onnx.graph import GraphBuilder, Tensor
from apass.relay.backend.onnx.site import Converter, Operand, Site, Table
from apass.relay.op.elementwise.convert import CastAttrs, ClipAttrs, FixedPointMultiplyAttrs

__all__ = ["TABLE", "floor_divided"]


def plain(op_type: str) -> Converter:
    """Return the converter of an operator that ONNX has too."""
    return lambda site: site.builder.emit(op_type, *(site[index] for index in range(len(site.operands))))


def comparison(op_type: str) -> Converter:
    """Return the converter of a comparison."""
    return lambda site: site.builder.emit(op_type, site[0], site[1], dtype="bool")


def logical(op_type: str) -> Converter:
    """Return the converter of an operator on truth values."""

    def convert(site: Site) -> Tensor:
        operands = [site.builder.cast(site[index], "bool") for index in range(len(site.operands))]
        return site.builder.cast(site.builder.emit(op_type, *operands), site.result.dtype)

    return convert


def identity(site: Site) -> Operand:
    """Return the first operand."""
    return site.operands[0]


def extreme(op_type: str) -> Converter:
    """Return the converter of `maximum` and `minimum`."""
    return lambda site: site.builder.extreme(op_type, site[0], site[1])


def or_equal(strict: str, op_type: str) -> Converter:
    """Return the converter of `less_equal` and `greater_equal`.

    Before version 12, ONNX has the strict comparisons only.
    """

    def convert(site: Site) -> Tensor:
        builder = site.builder
        if builder.opset >= 12:
            return builder.emit(op_type, site[0], site[1], dtype="bool")
        # The negation of the other strict comparison would be true for NaN.
        parts = [builder.emit(name, site[0], site[1], dtype="bool") for name in (strict, "Equal")]
        return builder.emit("Or", *parts, dtype="bool")

    return convert


def not_equal(site: Site) -> Tensor:
    """Return whether elements differ."""
    return site.builder.emit("Not", site.builder.emit("Equal", site[0], site[1], dtype="bool"))


def of_floats(op_type: str) -> Converter:
    """Return the converter of a rounding operator, which keeps integers."""
    return lambda site: site.builder.emit(op_type, site[0]) if site.is_float() else site[0]


def negative(site: Site) -> Tensor:
    """Return the negative; that of unsigned numbers wraps around."""
    if site.type().dtype.startswith("uint"):
        return site.builder.emit("Sub", site.like(0), site[0])
    return site.builder.emit("Neg", site[0])


def truncated(site: Site) -> Tensor:
    """Return the elements truncated towards zero."""
    return trunc_of(site, site[0]) if site.is_float() else site[0]


def trunc_of(site: Site, data: Tensor) -> Tensor:
    """Return floats truncated towards zero."""
    builder = site.builder
    is_negative = builder.emit("Less", data, builder.constant(0, data.dtype), dtype="bool")
    return builder.where(is_negative, builder.emit("Ceil", data), builder.emit("Floor", data))


def rounded(site: Site) -> Tensor:
    """Return the nearest integers; halves are rounded away from zero."""
    if not site.is_float():
        return site[0]
    builder, data = site.builder, site[0]
    whole = trunc_of(site, data)
    distance = builder.emit("Abs", builder.emit("Sub", data, whole))
    is_near = builder.emit("Less", distance, site.like(0.5), dtype="bool")
    step = builder.where(is_near, site.like(0), builder.emit("Sign", data))
    return builder.emit("Add", whole, step)


def rsqrt(site: Site) -> Tensor:
    """Return the reciprocal of the square root."""
    root = site.builder.emit("Sqrt", _as_floats(site))
    return site.builder.cast(site.builder.emit("Reciprocal", root), site.result.dtype)


def logarithm(base: float) -> Converter:
    """Return the converter of a logarithm to a base."""

    def convert(site: Site) -> Tensor:
        natural = site.builder.emit("Log", _as_floats(site))
        divisor = site.builder.constant(np.log(base), natural.dtype)
        return site.builder.cast(site.builder.emit("Div", natural, divisor), site.result.dtype)

    return convert


def _as_floats(site: Site) -> Tensor:
    """Return the first operand; integers become floats, for steps with fractions."""
    return site[0] if site.is_float() else site.builder.cast(site[0], "float64")


def is_finite(site: Site) -> Tensor:
    """Return whether each element is finite."""
    builder = site.builder
    if not site.is_float():
        return builder.emit("Equal", site[0], site[0], dtype="bool")
    parts = [builder.emit(name, site[0], dtype="bool") for name in ("IsNaN", "IsInf")]
    return builder.emit("Not", builder.emit("Or", *parts))


def predicate(op_type: str) -> Converter:
    """Return the converter of `isnan` and `isinf`, which are false for integers."""

    def convert(site: Site) -> Tensor:
        if site.is_float():
            return site.builder.emit(op_type, site[0], dtype="bool")
        return site.builder.emit("Not", site.builder.emit("Equal", site[0], site[0], dtype="bool"))

    return convert


def remainder(site: Site) -> Tensor:
    """Return the remainder of the truncated quotient."""
    return site.builder.emit("Mod", site[0], site[1], fmod=1)


def _has_other_sign(builder: GraphBuilder, rest: Tensor, divisor: Tensor) -> Tensor:
    """Return whether a remainder is not zero and has another sign than the divisor."""
    zero = builder.constant(0, rest.dtype)
    signs = [builder.emit("Less", number, zero, dtype="bool") for number in (rest, divisor)]
    is_zero = builder.emit("Equal", rest, zero, dtype="bool")
    return builder.emit("And", builder.emit("Not", is_zero), builder.emit("Xor", *signs))


def floor_mod(site: Site) -> Tensor:
    """Return the remainder of the quotient rounded down."""
    builder = site.builder
    if not site.is_float():
        return builder.emit("Mod", site[0], site[1])
    rest = builder.emit("Mod", site[0], site[1], fmod=1)
    return builder.where(_has_other_sign(builder, rest, site[1]), builder.emit("Add", rest, site[1]), rest)


def floor_divided(builder: GraphBuilder, left: Tensor, right: Tensor) -> Tensor:
    """Return the quotient of integers, rounded down."""
    quotient = builder.emit("Div", left, right)
    rest = builder.emit("Sub", left, builder.emit("Mul", quotient, right))
    step = builder.cast(_has_other_sign(builder, rest, right), left.dtype)
    return builder.emit("Sub", quotient, step)


def floor_divide(site: Site) -> Tensor:
    """Return the quotient, rounded down."""
    if site.is_float():
        return site.builder.emit("Floor", site.builder.emit("Div", site[0], site[1]))
    return floor_divided(site.builder, site[0], site[1])


def trunc_divide(site: Site) -> Tensor:
    """Return the quotient, truncated towards zero."""
    quotient = site.builder.emit("Div", site[0], site[1])
    return trunc_of(site, quotient) if site.is_float() else quotient


def shifted(direction: str) -> Converter:
    """Return the converter of a shift of bits.

    ONNX shifts unsigned numbers only. The bits of signed ones are shifted as unsigned numbers.
    """

    def convert(site: Site) -> Tensor:
        builder, dtype = site.builder, site.type().dtype
        data, distance = site[0], site[1]
        if dtype.startswith("uint"):
            return builder.emit("BitShift", data, distance, direction=direction)
        distance = builder.cast(distance, f"u{dtype}")
        if direction == "LEFT":
            return _unsigned_shift(builder, data, distance, direction)
        # The bits that enter on the left are those of the sign: shift the inverted bits of negative numbers.
        inverted = _unsigned_shift(builder, _inverted(builder, data), distance, direction)
        is_negative = builder.emit("Less", data, builder.constant(0, dtype), dtype="bool")
        return builder.where(
            is_negative, _inverted(builder, inverted), _unsigned_shift(builder, data, distance, direction)
        )

    return convert


def _inverted(builder: GraphBuilder, data: Tensor) -> Tensor:
    return builder.emit("Sub", builder.constant(-1, data.dtype), data)


def _unsigned_shift(builder: GraphBuilder, data: Tensor, distance: Tensor, direction: str) -> Tensor:
    bits = builder.emit("BitShift", builder.cast(data, distance.dtype), distance, direction=direction)
    return builder.cast(bits, data.dtype)


def bitwise(op_type: str, of_bools: str) -> Converter:
    """Return the converter of an operator on bits, which ONNX has for integers."""

    def convert(site: Site) -> Tensor:
        operands = [site[index] for index in range(len(site.operands))]
        return site.builder.emit(of_bools if site.type().dtype == "bool" else op_type, *operands)

    return convert


def clip(site: Site) -> Tensor:
    """Return the elements limited to two bounds."""
    attrs, builder, dtype = site.attrs(ClipAttrs), site.builder, site.type().dtype
    low, high = attrs.a_min, attrs.a_max
    if not site.is_float():
        limits = np.iinfo(dtype)
        return builder.bounded(
            site[0], *(int(min(max(bound, int(limits.min)), int(limits.max))) for bound in (low, high))
        )
    if builder.opset >= 11:
        return builder.emit("Clip", site[0], site.like(low), site.like(high))
    return builder.emit("Clip", site[0], min=low, max=high)


def cast(site: Site) -> Tensor:
    """Return the elements with another type."""
    return site.builder.cast(site[0], site.attrs(CastAttrs).dtype)


def cast_like(site: Site) -> Tensor:
    """Return the elements with the type of another tensor."""
    return site.builder.cast(site[0], site.result.dtype)


def reinterpret(site: Site) -> Tensor:
    """Return the bits of the elements as another type."""
    if site.type().dtype == site.result.dtype:
        return site[0]
    return site.builder.emit("BitCast", site[0], dtype=site.result.dtype, to=elem_type(site.result.dtype))


def fixed_point_multiply(site: Site) -> Tensor:
    """Return integers times a fixed-point number, rounded half up."""
    attrs, builder = site.attrs(FixedPointMultiplyAttrs), site.builder
    up, down = max(attrs.shift, 0), 31 + max(-attrs.shift, 0)
    factor, half, unit = (
        builder.constant(number, "int64") for number in (attrs.multiplier, 1 << (down - 1), 1 << down)
    )
    wide = builder.emit("Mul", builder.cast(site[0], "int64"), builder.constant(1 << up, "int64"))
    moved = builder.emit("Add", builder.emit("Mul", wide, factor), half)
    return builder.cast(floor_divided(builder, moved, unit), site.type().dtype)


_UNARY: Final = {
    "abs": "Abs",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "fast_erf": "Erf",
    "fast_exp": "Exp",
    "fast_tanh": "Tanh",
    "log": "Log",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
"""Operators with one operand that ONNX has too; it has no approximate ones."""

_BINARY: Final = {"add": "Add", "divide": "Div", "multiply": "Mul", "power": "Pow", "subtract": "Sub"}
"""Operators with two operands that ONNX has too."""

_SPECIAL: Final[dict[str, Converter]] = {
    "annotation.bitpack_end": identity,
    "annotation.bitpack_start": identity,
    "annotation.cast_hint": identity,
    "annotation.checkpoint": identity,
    "annotation.compiler_begin": identity,
    "annotation.compiler_end": identity,
    "annotation.stop_fusion": identity,
    "bitwise_and": bitwise("BitwiseAnd", "And"),
    "bitwise_not": bitwise("BitwiseNot", "Not"),
    "bitwise_or": bitwise("BitwiseOr", "Or"),
    "bitwise_xor": bitwise("BitwiseXor", "Xor"),
    "cast": cast,
    "cast_like": cast_like,
    "ceil": of_floats("Ceil"),
    "clip": clip,
    "copy": identity,
    "device_copy": identity,
    "equal": comparison("Equal"),
    "fixed_point_multiply": fixed_point_multiply,
    "floor": of_floats("Floor"),
    "floor_divide": floor_divide,
    "floor_mod": floor_mod,
    "greater": comparison("Greater"),
    "greater_equal": or_equal("Greater", "GreaterOrEqual"),
    "isfinite": is_finite,
    "isinf": predicate("IsInf"),
    "isnan": predicate("IsNaN"),
    "left_shift": shifted("LEFT"),
    "less": comparison("Less"),
    "less_equal": or_equal("Less", "LessOrEqual"),
    "log10": logarithm(10),
    "log2": logarithm(2),
    "logical_and": logical("And"),
    "logical_not": logical("Not"),
    "logical_or": logical("Or"),
    "logical_xor": logical("Xor"),
    "maximum": extreme("Max"),
    "minimum": extreme("Min"),
    "mod": remainder,
    "negative": negative,
    "not_equal": not_equal,
    "on_device": identity,
    "reinterpret": reinterpret,
    "right_shift": shifted("RIGHT"),
    "round": rounded,
    "rsqrt": rsqrt,
    "trunc": truncated,
    "trunc_divide": trunc_divide,
    "trunc_mod": remainder,
}

TABLE: Final[Table] = {
    **{name: plain(op_type) for name, op_type in (_UNARY | _BINARY).items()},
    **_SPECIAL,
}
"""The converters of this module."""
