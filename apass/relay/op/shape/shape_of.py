"""Operators that return the shape or size of a tensor: shape_of, ndarray_size."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, scalar_type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward

__all__ = ["NdarraySizeAttrs", "ShapeOfAttrs", "ndarray_size", "shape_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeOfAttrs(Attrs):
    """The attributes of shape_of."""

    dtype: str = ""
    """The element type of the result; empty for int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NdarraySizeAttrs(Attrs):
    """The attributes of ndarray_size."""

    dtype: str = ""
    """The element type of the result; empty for int32."""


def _relate_shape(data: TensorType, attrs: ShapeOfAttrs) -> TensorType:
    return TensorType((len(data.shape),), attrs.dtype or "int32")


def _shape_of(attrs: ShapeOfAttrs, data: Array) -> Array:
    return np.array(data.shape, attrs.dtype or "int32")


def _relate_size(data: TensorType, attrs: NdarraySizeAttrs) -> TensorType:
    return scalar_type(attrs.dtype or "int32")


def _ndarray_size(attrs: NdarraySizeAttrs, data: Array) -> Array:
    return np.array(data.size, attrs.dtype or "int32")


_SHAPE_OF = register_op(
    "shape_of",
    arguments=("data",),
    attrs_type=ShapeOfAttrs,
    relation=forward("shape_of", ("data",), _relate_shape),
    compute=_shape_of,
    pattern=OpPattern.OPAQUE,
    level=10,
    description="The shape of the tensor.",
)
_NDARRAY_SIZE = register_op(
    "ndarray_size",
    arguments=("data",),
    attrs_type=NdarraySizeAttrs,
    relation=forward("ndarray_size", ("data",), _relate_size),
    compute=_ndarray_size,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The number of elements of the tensor.",
)


def shape_of(data: Expr, dtype: str = "int32") -> Call:
    """Return the shape of the tensor as a vector."""
    return Call(_SHAPE_OF, (data,), ShapeOfAttrs(dtype=dtype))


def ndarray_size(data: Expr, dtype: str = "int32") -> Call:
    """Return the number of elements of the tensor as a scalar."""
    return Call(_NDARRAY_SIZE, (data,), NdarraySizeAttrs(dtype=dtype))
