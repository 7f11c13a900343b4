"""Softmax operators: nn.softmax, nn.fast_softmax, nn.log_softmax."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import axis_in, tensors

__all__ = ["SoftmaxAttrs", "fast_softmax", "log_softmax", "softmax"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxAttrs(Attrs):
    """The attributes of nn.softmax, nn.fast_softmax and nn.log_softmax."""

    axis: int = -1
    """The axis of the sum."""


def _shifted(attrs: SoftmaxAttrs, data: Array) -> Array:
    """Return the data minus its maximum along the axis, so that exp does not overflow."""
    wide = data.astype(accumulator(str(data.dtype)), copy=False)
    shifted: Array = np.subtract(wide, wide.max(axis=attrs.axis, keepdims=True))
    return shifted


def _softmax(attrs: SoftmaxAttrs, data: Array) -> Array:
    if not data.size:
        return data
    powers: Array = np.exp(_shifted(attrs, data))
    np.divide(powers, powers.sum(axis=attrs.axis, keepdims=True), out=powers)
    return powers.astype(data.dtype, copy=False)


def _log_softmax(attrs: SoftmaxAttrs, data: Array) -> Array:
    if not data.size:
        return data
    shifted = _shifted(attrs, data)
    powers: Array = np.exp(shifted)
    out: Array = np.subtract(shifted, np.log(powers.sum(axis=attrs.axis, keepdims=True)))
    return out.astype(data.dtype, copy=False)


def _define(name: str, compute: Compute, pattern: OpPattern, description: str) -> Op:
    def relation(types: Sequence[Type], attrs: SoftmaxAttrs) -> Sequence[Type | None] | None:
        data, out = tensors(name, types)
        known = data or out
        if known is None:
            return None
        axis_in(name, known, attrs.axis)
        return [known, known]

    return register_op(
        name,
        arguments=("data",),
        attrs_type=SoftmaxAttrs,
        relation=relation,
        compute=compute,
        pattern=pattern,
        level=1,
        description=description,
    )


_SOFTMAX = _define(
    "nn.softmax", _softmax, OpPattern.OUT_ELEMWISE_FUSABLE, "Exponentials divided by their sum along an axis."
)
_FAST_SOFTMAX = _define(
    "nn.fast_softmax", _softmax, OpPattern.OUT_ELEMWISE_FUSABLE, "Softmax with exponentials that may be approximate."
)
_LOG_SOFTMAX = _define("nn.log_softmax", _log_softmax, OpPattern.OPAQUE, "The logarithm of softmax.")


def softmax(data: Expr, axis: int = -1) -> Call:
    """Return the exponentials of the data divided by their sum along an axis."""
    return Call(_SOFTMAX, (data,), SoftmaxAttrs(axis=axis))


def fast_softmax(data: Expr, axis: int = -1) -> Call:
    """Return `softmax`, with exponentials that a target may approximate.

    The kernel of this package computes them exactly.
    """
    return Call(_FAST_SOFTMAX, (data,), SoftmaxAttrs(axis=axis))


def log_softmax(data: Expr, axis: int = -1) -> Call:
    """Return the logarithm of `softmax`, without rounding small probabilities to 0."""
    return Call(_LOG_SOFTMAX, (data,), SoftmaxAttrs(axis=axis))
