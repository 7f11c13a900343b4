"""nn.bias_add: adds a vector along an axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import axis_in, broadcast_along, must_be, tensors

__all__ = ["BiasAddAttrs", "bias_add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasAddAttrs(Attrs):
    """The attributes of nn.bias_add."""

    axis: int = 1
    """The axis of the bias."""


def _relation(types: Sequence[Type], attrs: BiasAddAttrs) -> Sequence[Type | None] | None:
    data, bias, _ = tensors("nn.bias_add", types)
    if data is None:
        return None
    axis = axis_in("nn.bias_add", data, attrs.axis)
    return [None, must_be("nn.bias_add", "the bias", bias, TensorType((data.shape[axis],), data.dtype)), data]


def _compute(attrs: BiasAddAttrs, data: Array, bias: Array) -> Array:
    return np.add(data, broadcast_along(bias, data.ndim, attrs.axis))


_BIAS_ADD = register_op(
    "nn.bias_add",
    arguments=("data", "bias"),
    attrs_type=BiasAddAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.BROADCAST,
    level=1,
    description="The data plus a vector along an axis.",
)


def bias_add(data: Expr, bias: Expr, axis: int = 1) -> Call:
    """Return the data plus a one-dimensional bias along an axis.

    The type of the bias is inferred from that of the data.
    """
    return Call(_BIAS_ADD, (data, bias), BiasAddAttrs(axis=axis))
