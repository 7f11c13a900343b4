"""Reductions made of others: variance, std, mean_variance, mean_std, logsumexp."""

from dataclasses import dataclass
from math import prod

import numpy as np

from apass.relay.expr import Call, Expr, Tuple
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, one_dtype
from apass.relay.op.elementwise.arithmetic import add, subtract
from apass.relay.op.elementwise.math import exp, log, sqrt
from apass.relay.op.reduce import AxisArg, max, mean, reduce_axes, reduced_shape, sum, to_axes
from apass.relay.op.shape.axes import squeeze
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import TensorType

__all__ = ["VarianceAttrs", "logsumexp", "mean_std", "mean_variance", "std", "variance"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceAttrs(Attrs):
    """The attributes of variance."""

    axis: tuple[int, ...] | None = None
    """The axes that are reduced; none at all, or None, for all of them."""
    keepdims: bool = False
    """Whether the reduced axes stay, with a size of 1."""
    exclude: bool = False
    """Whether the axes that are *not* named are reduced."""
    unbiased: bool = False
    """Whether to divide by one less than the number of elements."""


def _relate(data: TensorType, mean: TensorType, attrs: VarianceAttrs) -> TensorType:
    if len(mean.shape) != len(data.shape):
        raise ValueError(f"the mean must have kept the {len(data.shape)} dimensions of the data, but it is a {mean}")
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
    description="The mean square of the distance from the mean, over axes.",
)


def _variance(data: Expr, middle: Expr, axis: AxisArg, keepdims: bool, exclude: bool, unbiased: bool) -> Call:
    attrs = VarianceAttrs(axis=to_axes(axis), keepdims=keepdims, exclude=exclude, unbiased=unbiased)
    return Call(_VARIANCE, (data, middle), attrs)


def variance(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> Call:
    """Return the variance over `axis`; with `unbiased`, that of the population that the data is a sample of."""
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
    return TupleWrapper(Tuple((_kept(data, middle, axis, keepdims, exclude), spread)), 2)


def mean_std(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """Return the mean and the standard deviation over `axis`."""
    middle = mean(data, axis, True, exclude)
    spread = sqrt(_variance(data, middle, axis, keepdims, exclude, False))
    return TupleWrapper(Tuple((_kept(data, middle, axis, keepdims, exclude), spread)), 2)


def _kept(data: Expr, middle: Expr, axis: AxisArg, keepdims: bool, exclude: bool) -> Expr:
    """Return the mean as the caller wants it; `middle` has kept its axes."""
    if keepdims:
        return middle
    # Which axes to drop is only known where they are the ones that are named.
    return mean(data, axis, False, True) if exclude else squeeze(middle, to_axes(axis))


def logsumexp(data: Expr, axis: AxisArg = None, keepdims: bool = False) -> Call:
    """Return the logarithm of the sum of exponentials over `axis`, without an overflow for great elements."""
    greatest = max(data, axis, True)
    total = sum(exp(subtract(data, greatest)), axis, True)
    result = add(log(total), greatest)
    return result if keepdims else squeeze(result, to_axes(axis))
