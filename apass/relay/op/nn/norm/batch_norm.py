"""nn.batch_norm at inference: normalization by the moving mean and variance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, TupleWrapper
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import axis_in, broadcast_along, must_be, tensors

__all__ = ["BatchNormAttrs", "batch_norm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormAttrs(Attrs):
    """The attributes of nn.batch_norm."""

    axis: int = 1
    """The axis of the channels."""
    epsilon: float = 1e-5
    """A number added to the variance, to avoid division by 0."""
    center: bool = True
    """Whether beta is added."""
    scale: bool = True
    """Whether the result is multiplied by gamma."""


_VECTORS = ("gamma", "beta", "moving_mean", "moving_var")


def _relation(types: Sequence[Type], attrs: BatchNormAttrs) -> Sequence[Type | None] | None:
    data, *vectors, _ = tensors("nn.batch_norm", types)
    if data is None:
        return None
    vector = TensorType((data.shape[axis_in("nn.batch_norm", data, attrs.axis)],), data.dtype)
    inferred = [must_be("nn.batch_norm", name, ty, vector) for name, ty in zip(_VECTORS, vectors, strict=True)]
    return [None, *inferred, TupleType([data, *inferred[2:]])]


def _compute(
    attrs: BatchNormAttrs, data: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> tuple[Array, ...]:
    mean, factor, shift = (vector.astype("float64") for vector in (moving_mean, gamma, beta))
    factor = (factor if attrs.scale else 1.0) / np.sqrt(moving_var.astype("float64") + attrs.epsilon)
    shift = (shift if attrs.center else 0.0) - mean * factor
    dtype = accumulator(str(data.dtype))
    out: Array = np.multiply(data, broadcast_along(factor.astype(dtype), data.ndim, attrs.axis))
    np.add(out, broadcast_along(shift.astype(dtype), data.ndim, attrs.axis), out=out)
    return out.astype(data.dtype, copy=False), moving_mean, moving_var


_BATCH_NORM = register_op(
    "nn.batch_norm",
    arguments=("data", *_VECTORS),
    attrs_type=BatchNormAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.OPAQUE,
    level=1,
    description="The data normalized by the moving mean and variance of each channel, and these two vectors.",
)


def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleWrapper:
    """Return the normalized data, the moving mean and the moving variance.

    The types of the four vectors are inferred from that of the data.
    """
    attrs = BatchNormAttrs(axis=axis, epsilon=float(epsilon), center=center, scale=scale)
    return TupleWrapper(Call(_BATCH_NORM, (data, gamma, beta, moving_mean, moving_var), attrs), 3)
