"""Cumulative operators along an axis: cumsum, cumprod."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.dims import axis_of, product
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward
from apass.relay.op.define.unary import Function

__all__ = ["ScanopAttrs", "cumprod", "cumsum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanopAttrs(Attrs):
    """The attributes of cumsum and cumprod."""

    axis: int | None = None
    """The axis of the scan; None for the flattened data."""
    dtype: str = ""
    """The element type of the computation and of the result; empty for that of the data."""
    exclusive: bool = False
    """Whether an element is left out of its own total."""


def _relate(data: TensorType, attrs: ScanopAttrs) -> TensorType:
    if attrs.axis is None:
        return TensorType((product(data.shape),), attrs.dtype or data.dtype)
    axis_of(len(data.shape), attrs.axis)
    return TensorType(data.shape, attrs.dtype or data.dtype)


def _define(name: str, function: Function, identity: int, description: str) -> Op:
    def compute(attrs: ScanopAttrs, data: Array) -> Array:
        dtype = attrs.dtype or str(data.dtype)
        axis = 0 if attrs.axis is None else attrs.axis
        values = (data.reshape(-1) if attrs.axis is None else data).astype(dtype)
        if attrs.exclusive:
            values = np.roll(values, 1, axis)
            np.moveaxis(values, axis, 0)[:1] = identity
        with np.errstate(all="ignore"):
            return np.asarray(function(values, axis, dtype=dtype))

    return register_op(
        name,
        arguments=("data",),
        attrs_type=ScanopAttrs,
        relation=forward(name, ("data",), _relate),
        compute=compute,
        pattern=OpPattern.OPAQUE,
        level=10,
        description=description,
    )


_CUMSUM = _define("cumsum", np.cumsum, 0, "The cumulative sum along an axis.")
_CUMPROD = _define("cumprod", np.cumprod, 1, "The cumulative product along an axis.")


def cumsum(data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """Return the cumulative sum along `axis`.

    With `exclusive`, it is the sum of the elements before each one.
    """
    return Call(_CUMSUM, (data,), ScanopAttrs(axis=axis, dtype=dtype or "", exclusive=bool(exclusive)))


def cumprod(data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """Return the cumulative product along `axis`.

    With `exclusive`, it is the product of the elements before each one.
    """
    return Call(_CUMPROD, (data,), ScanopAttrs(axis=axis, dtype=dtype or "", exclusive=bool(exclusive)))
