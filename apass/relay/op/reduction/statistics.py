"""Composed reductions: variance, std, mean_variance, mean_std, logsumexp."""

from dataclasses import dataclass
from math import prod

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Tuple, TupleWrapper
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, one_dtype
from apass.relay.op.elementwise.arithmetic import add, subtract
from apass.relay.op.elementwise.math import exp, log, sqrt
from apass.relay.op.reduce import AxisArg, max, mean, reduce_axes, reduced_shape, sum, to_axes
from apass.relay.op.shape.axes import squeeze

__all__ = ["VarianceAttrs", "logsumexp", "mean_std", "mean_variance", "std", "variance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceAttrs(Attrs):
    """The attributes of variance."""

    axis: tuple[int, ...] | None = None
    """The axes that are reduced; empty or None for all of them."""
    keepdims: bool = False
    """Whether the reduced axes are kept with a size of 1."""
    exclude: bool = False
    """Whether the axes that are *not* in `axis` are reduced."""
    unbiased: bool = False
    """Whether to divide by the number of elements minus one."""


def _relate(data: TensorType, mean: TensorType, attrs: VarianceAttrs) -> TensorType:
    if len(mean.shape) != len(data.shape):
        raise ValueError(f"the mean must have the {len(data.shape)} dimensions of the data, got {mean}")
    axes = reduce_axes(len(data.shape), attrs.axis, attrs.exclude)
    return TensorType(reduced_shape(data.shape, axes, attrs.keepdims), one_dtype(data, mean))


def _compute(attrs: VarianceAttrs, data: Array, mean: Array) -> Array:
    axes = reduce_axes(data.ndim, attrs.axis, attrs.exclude)
    count = prod(data.shape[axis] for axis in axes) - attrs.unbiased
    with np.errstate(all="ignore"):
        total = np.sum(np.square(np.subtract(data, mean)), axes, keepdims=attrs.keepdims)
        return np.asarray(np.true_divide(total, count)).astype(data.dtype, copy=False)


_VARIANCE = register_op(
    "variance",
    arguments=("data", "mean"),
    attrs_type=VarianceAttrs,
    relation=forward("variance", ("data", "mean"), _relate),
    compute=_compute,
    pattern=OpPattern.COMM_REDUCE,
    level=4,
    description="The mean of the squared differences from the mean, over axes.",
)


def _variance(data: Expr, middle: Expr, axis: AxisArg, keepdims: bool, exclude: bool, unbiased: bool) -> Call:
    attrs = VarianceAttrs(axis=to_axes(axis), keepdims=keepdims, exclude=exclude, unbiased=unbiased)
    return Call(_VARIANCE, (data, middle), attrs)


def variance(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Call:
    """Return the variance over `axis`.

    With `unbiased`, return the sample variance: the sum is divided by the number of elements minus one.
    """
    return _variance(data, mean(data, axis, True, exclude), axis, keepdims, exclude, unbiased)


def std(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Call:
    """Return the standard deviation over `axis`: the square root of the variance."""
    return sqrt(variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """Return the mean and the variance over `axis`."""
    middle = mean(data, axis, True, exclude)
    spread = _variance(data, middle, axis, keepdims, exclude, unbiased)
    return TupleWrapper(Tuple((_with_keepdims(data, middle, axis, keepdims, exclude), spread)), 2)


def mean_std(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """Return the mean and the standard deviation over `axis`."""
    middle = mean(data, axis, True, exclude)
    spread = sqrt(_variance(data, middle, axis, keepdims, exclude, False))
    return TupleWrapper(Tuple((_with_keepdims(data, middle, axis, keepdims, exclude), spread)), 2)


def _with_keepdims(data: Expr, middle: Expr, axis: AxisArg, keepdims: bool, exclude: bool) -> Expr:
    """Return the mean with or without its reduced axes; `middle` has them."""
    if keepdims:
        return middle
    # With `exclude`, the reduced axes depend on the rank, which is not known here: reduce again instead of squeezing.
    return mean(data, axis, False, True) if exclude else squeeze(middle, to_axes(axis))


def logsumexp(data: Expr, axis: AxisArg = None, keepdims: bool = False) -> Call:
    """Return the logarithm of the sum of exponentials over `axis`, without overflow."""
    # exp(x - max) is at most 1.
    greatest = max(data, axis, True)
    total = sum(exp(subtract(data, greatest)), axis, True)
    result = add(log(total), greatest)
    return result if keepdims else squeeze(result, to_axes(axis))
