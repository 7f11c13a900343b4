"""Activation functions: nn.relu, nn.leaky_relu, nn.prelu."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import identity_relation
from apass.relay.op.nn.relations import axis_in, broadcast_along, must_be, tensors

__all__ = ["LeakyReluAttrs", "PReluAttrs", "leaky_relu", "prelu", "relu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakyReluAttrs(Attrs):
    """The attributes of nn.leaky_relu."""

    alpha: float = 0.25
    """The slope for negative elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PReluAttrs(Attrs):
    """The attributes of nn.prelu."""

    axis: int = 1
    """The axis of the channels, each of which has its own slope."""


def _relu(data: Array) -> Array:
    return np.maximum(data, data.dtype.type(0))


def _leaky_relu(attrs: LeakyReluAttrs, data: Array) -> Array:
    scaled: Array = np.multiply(data, attrs.alpha)
    return np.where(np.greater(data, 0), data, scaled).astype(data.dtype, copy=False)


def _prelu_relation(types: Sequence[Type], attrs: PReluAttrs) -> Sequence[Type | None] | None:
    data, alpha, _ = tensors("nn.prelu", types)
    if data is None:
        return None
    length = data.shape[axis_in("nn.prelu", data, attrs.axis)]
    return [None, must_be("nn.prelu", "alpha", alpha, TensorType((length,), data.dtype)), data]


def _prelu(attrs: PReluAttrs, data: Array, alpha: Array) -> Array:
    scaled: Array = np.multiply(data, broadcast_along(alpha, data.ndim, attrs.axis))
    return np.where(np.greater(data, 0), data, scaled)


_RELU = register_op(
    "nn.relu",
    arguments=("data",),
    relation=identity_relation,
    compute=_relu,
    pattern=OpPattern.ELEMWISE,
    level=1,
    description="Each element, or 0 if it is negative.",
)

_LEAKY_RELU = register_op(
    "nn.leaky_relu",
    arguments=("data",),
    attrs_type=LeakyReluAttrs,
    relation=identity_relation,
    compute=_leaky_relu,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="Each element, multiplied by alpha if it is negative.",
)

_PRELU = register_op(
    "nn.prelu",
    arguments=("data", "alpha"),
    attrs_type=PReluAttrs,
    relation=_prelu_relation,
    compute=_prelu,
    pattern=OpPattern.BROADCAST,
    level=3,
    description="Each element, multiplied by the slope of its channel if it is negative.",
)


def relu(data: Expr) -> Call:
    """Return the data with negative elements replaced by 0."""
    return Call(_RELU, (data,))


def leaky_relu(data: Expr, alpha: float = 0.01) -> Call:
    """Return the data with negative elements multiplied by `alpha`."""
    return Call(_LEAKY_RELU, (data,), LeakyReluAttrs(alpha=float(alpha)))


def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Call:
    """Return the data with negative elements multiplied by the slope of their channel."""
    return Call(_PRELU, (data, alpha), PReluAttrs(axis=axis))
