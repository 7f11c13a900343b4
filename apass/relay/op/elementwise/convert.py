"""Elementwise operators with attributes: casts, bounds, copies and constant fills."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import elementwise_relation, forward
from apass.relay.op.define.unary import define_unary

__all__ = [
    "CastAttrs",
    "ClipAttrs",
    "FixedPointMultiplyAttrs",
    "cast",
    "cast_like",
    "clip",
    "copy",
    "fixed_point_multiply",
    "ones_like",
    "reinterpret",
    "zeros_like",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CastAttrs(Attrs):
    """The attributes of cast and reinterpret."""

    dtype: str
    """The element type of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipAttrs(Attrs):
    """The attributes of clip."""

    a_min: float
    """The lower bound of the result."""
    a_max: float
    """The upper bound of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPointMultiplyAttrs(Attrs):
    """The attributes of fixed_point_multiply."""

    multiplier: int
    """The factor, with 31 fractional bits."""
    shift: int
    """The exponent of the power of two that the factor is multiplied by."""


def _with_dtype(data: TensorType, attrs: CastAttrs) -> TensorType:
    return TensorType(data.shape, attrs.dtype)


def _same_width(data: TensorType, attrs: CastAttrs) -> TensorType:
    try:
        np.dtype(attrs.dtype)
    except TypeError:
        raise ValueError(f"{attrs.dtype!r:.50} is not an element type") from None
    if np.dtype(data.dtype).itemsize != np.dtype(attrs.dtype).itemsize:
        raise ValueError(
            f"the bits of {data} cannot be reinterpreted as {attrs.dtype}: the element types must have the same size"
        )
    return TensorType(data.shape, attrs.dtype)


def _like(data: TensorType, dtype_like: TensorType, attrs: None) -> TensorType:
    return TensorType(data.shape, dtype_like.dtype)


def _cast_to(data: Array, dtype: str) -> Array:
    with np.errstate(all="ignore"):
        return data.astype(dtype)


def _cast(attrs: CastAttrs, data: Array) -> Array:
    return _cast_to(data, attrs.dtype)


def _cast_like(data: Array, dtype_like: Array) -> Array:
    return _cast_to(data, str(dtype_like.dtype))


def _reinterpret(attrs: CastAttrs, data: Array) -> Array:
    return np.ascontiguousarray(data).view(attrs.dtype).reshape(data.shape)


def _clip(attrs: ClipAttrs, data: Array) -> Array:
    low, high = attrs.a_min, attrs.a_max
    if np.issubdtype(data.dtype, np.integer):
        # The bounds are floats: limit them to the element type, so that numpy compares integers.
        limits = np.iinfo(str(data.dtype))
        low, high = (int(min(max(bound, limits.min), limits.max)) for bound in (low, high))
    with np.errstate(all="ignore"):
        return np.asarray(np.clip(data, low, high)).astype(data.dtype, copy=False)


def _fixed_point_multiply(attrs: FixedPointMultiplyAttrs, data: Array) -> Array:
    """Return the product, computed in 64 bits and rounded half up."""
    up, down = max(attrs.shift, 0), 31 + max(-attrs.shift, 0)
    wide = np.left_shift(data.astype("int64"), up) * attrs.multiplier
    return np.asarray(np.right_shift(wide + (1 << (down - 1)), down)).astype(data.dtype)


_CAST = register_op(
    "cast",
    arguments=("data",),
    attrs_type=CastAttrs,
    relation=forward("cast", ("data",), _with_dtype),
    compute=_cast,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="The tensor with another element type.",
)
_CAST_LIKE = register_op(
    "cast_like",
    arguments=("data", "dtype_like"),
    relation=forward("cast_like", ("data", "dtype_like"), _like),
    compute=_cast_like,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="The tensor with the element type of another.",
)
_REINTERPRET = register_op(
    "reinterpret",
    arguments=("data",),
    attrs_type=CastAttrs,
    relation=forward("reinterpret", ("data",), _same_width),
    compute=_reinterpret,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="The bits of the tensor, reinterpreted as another element type.",
)
_CLIP = register_op(
    "clip",
    arguments=("a",),
    attrs_type=ClipAttrs,
    relation=elementwise_relation("clip"),
    compute=_clip,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="Each element, limited to the two bounds.",
)
_FIXED_POINT_MULTIPLY = register_op(
    "fixed_point_multiply",
    arguments=("data",),
    attrs_type=FixedPointMultiplyAttrs,
    relation=elementwise_relation("fixed_point_multiply"),
    compute=_fixed_point_multiply,
    pattern=OpPattern.ELEMWISE,
    level=10,
    description="The product of the tensor and a fixed-point number, rounded.",
)
_COPY = define_unary("copy", np.copy, "The unchanged tensor.", level=3)
_ZEROS_LIKE = define_unary("zeros_like", np.zeros_like, "Zeros with the type of the tensor.", level=4)
_ONES_LIKE = define_unary("ones_like", np.ones_like, "Ones with the type of the tensor.", level=4)


def cast(data: Expr, dtype: str) -> Call:
    """Return the tensor with another element type."""
    return Call(_CAST, (data,), CastAttrs(dtype=dtype))


def cast_like(data: Expr, dtype_like: Expr) -> Call:
    """Return the tensor with the element type of another."""
    return Call(_CAST_LIKE, (data, dtype_like))


def reinterpret(data: Expr, dtype: str) -> Call:
    """Return the bits of the tensor, read as an element type of the same size."""
    return Call(_REINTERPRET, (data,), CastAttrs(dtype=dtype))


def clip(a: Expr, a_min: float, a_max: float) -> Call:
    """Return the tensor with each element limited to `a_min` and `a_max`."""
    return Call(_CLIP, (a,), ClipAttrs(a_min=float(a_min), a_max=float(a_max)))


def fixed_point_multiply(data: Expr, multiplier: int, shift: int) -> Call:
    """Return integers times `multiplier * 2**(shift - 31)`, rounded half up."""
    return Call(_FIXED_POINT_MULTIPLY, (data,), FixedPointMultiplyAttrs(multiplier=multiplier, shift=shift))


def copy(data: Expr) -> Call:
    """Return the unchanged tensor, in storage of its own where that matters."""
    return Call(_COPY, (data,))


def zeros_like(data: Expr) -> Call:
    """Return zeros with the type of the tensor."""
    return Call(_ZEROS_LIKE, (data,))


def ones_like(data: Expr) -> Call:
    """Return ones with the type of the tensor."""
    return Call(_ONES_LIKE, (data,))
