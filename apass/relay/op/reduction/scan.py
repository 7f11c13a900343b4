"""Running totals along an axis: cumsum, cumprod."""

from dataclasses import dataclass

import numpy as np

from apass.relay.expr import Call, Expr, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.dims import axis_of, product
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward
from apass.relay.op.define.unary import Function
from apass.relay.ty import TensorType

__all__ = ["ScanopAttrs", "cumprod", "cumsum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanopAttrs(Attrs):
    """The attributes of cumsum and cumprod."""

    axis: int | None = None
    """The axis along which they run; None for the data laid out flat."""
    dtype: str = ""
    """The element type of the result, and of the running; empty for that of the data."""
    exclusive: bool = False
    """Whether each place has the total of those before it, without itself."""


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


_CUMSUM = _define("cumsum", np.cumsum, 0, "The running sum along an axis.")
_CUMPROD = _define("cumprod", np.cumprod, 1, "The running product along an axis.")


def cumsum(data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """Return the running sum along `axis`; with `exclusive`, of the elements before each."""
    return Call(_CUMSUM, (data,), ScanopAttrs(axis=axis, dtype=dtype or "", exclusive=bool(exclusive)))


def cumprod(data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """Return the running product along `axis`; with `exclusive`, of the elements before each."""
    return Call(_CUMPROD, (data,), ScanopAttrs(axis=axis, dtype=dtype or "", exclusive=bool(exclusive)))
