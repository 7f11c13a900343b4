"""Normalization by the size of elements: nn.lrn and nn.l2_normalize."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import axis_in, tensors

__all__ = ["L2NormalizeAttrs", "LRNAttrs", "l2_normalize", "lrn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LRNAttrs(Attrs):
    """The attributes of nn.lrn."""

    size: int = 5
    """The size of the neighbourhood along the axis, including the element itself.

    If it is even, the neighbourhood has one element more before the element than after it, as in TVM.
    """
    axis: int = 1
    """The axis of the neighbourhood."""
    bias: float = 2.0
    """A number added to the mean square, to avoid division by 0."""
    alpha: float = 0.0001
    """The factor of the mean square."""
    beta: float = 0.75
    """The exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class L2NormalizeAttrs(Attrs):
    """The attributes of nn.l2_normalize."""

    eps: float
    """The lower bound of the sum of squares."""
    axis: tuple[int, ...] | None
    """The axes of the sum; None for all."""


def _lrn_relation(types: Sequence[Type], attrs: LRNAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.lrn", types)
    if data is None:
        return None
    axis_in("nn.lrn", data, attrs.axis)
    if attrs.size < 1:
        raise TypeInferenceError(f"nn.lrn: size must be at least 1, got {attrs.size}")
    return [None, data]


def _l2_relation(types: Sequence[Type], attrs: L2NormalizeAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.l2_normalize", types)
    if data is None:
        return None
    for axis in attrs.axis or ():
        axis_in("nn.l2_normalize", data, axis)
    return [None, data]


def _lrn(attrs: LRNAttrs, data: Array) -> Array:
    wide = data.astype(accumulator(str(data.dtype)), copy=False)
    square: Array = np.square(np.moveaxis(wide, attrs.axis, 0))
    total = square.copy()
    for step in range(1, min(attrs.size // 2, len(square) - 1) + 1):
        np.add(total[step:], square[:-step], out=total[step:])
    for step in range(1, min((attrs.size - 1) // 2, len(square) - 1) + 1):
        np.add(total[:-step], square[step:], out=total[:-step])
    scale: Array = np.add(np.multiply(total, attrs.alpha / attrs.size), attrs.bias)
    out: Array = np.divide(wide, np.moveaxis(np.power(scale, attrs.beta), 0, attrs.axis))
    return out.astype(data.dtype, copy=False)


def _l2_normalize(attrs: L2NormalizeAttrs, data: Array) -> Array:
    wide = data.astype(accumulator(str(data.dtype)), copy=False)
    total = np.square(wide).sum(axis=attrs.axis or None, keepdims=True)
    out: Array = np.divide(wide, np.sqrt(np.maximum(total, np.asarray(attrs.eps, wide.dtype))))
    return out.astype(data.dtype, copy=False)


_LRN = register_op(
    "nn.lrn",
    arguments=("data",),
    attrs_type=LRNAttrs,
    relation=_lrn_relation,
    compute=_lrn,
    pattern=OpPattern.OPAQUE,
    level=2,
    description="Local response normalization: each element divided by a power of the mean square of its neighbours.",
)

_L2_NORMALIZE = register_op(
    "nn.l2_normalize",
    arguments=("data",),
    attrs_type=L2NormalizeAttrs,
    relation=_l2_relation,
    compute=_l2_normalize,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=2,
    description="The data divided by the square root of its sum of squares along axes.",
)


def lrn(data: Expr, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 0.00001, beta: float = 0.75) -> Call:
    """Return the local response normalization of the data along an axis.

    This is `data / (bias + alpha / size * s) ** beta`, where s is the sum of squares of the `size` nearest elements.
    If `size` is even, the element before is nearer than the one after.
    """
    attrs = LRNAttrs(size=size, axis=axis, bias=float(bias), alpha=float(alpha), beta=float(beta))
    return Call(_LRN, (data,), attrs)


def l2_normalize(data: Expr, eps: float, axis: Iterable[int] | None = None) -> Call:
    """Return the data divided by the square root of its sum of squares along `axis`.

    The sum of squares is at least `eps`. If `axis` is None, sum over all axes.
    """
    attrs = L2NormalizeAttrs(eps=float(eps), axis=None if axis is None else tuple(axis))
    return Call(_L2_NORMALIZE, (data,), attrs)
