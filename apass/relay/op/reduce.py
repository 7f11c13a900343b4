"""Reductions over axes: sum, mean, max, argmax, ..."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType
from apass.relay.op.define.dims import axes_of, ints
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward

__all__ = [
    "ArgReduceAttrs",
    "AxisArg",
    "ReduceAttrs",
    "all",
    "any",
    "argmax",
    "argmin",
    "max",
    "mean",
    "min",
    "prod",
    "reduce_axes",
    "reduced_shape",
    "sum",
    "to_axes",
]

AxisArg = int | Iterable[int] | None
"""The axes of a reduction: one, several, or None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceAttrs(Attrs):
    """The attributes of reductions."""

    axis: tuple[int, ...] | None = None
    """The axes that are reduced; empty or None for all of them."""
    keepdims: bool = False
    """Whether the reduced axes are kept with a size of 1."""
    exclude: bool = False
    """Whether the axes that are *not* in `axis` are reduced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgReduceAttrs(Attrs):
    """The attributes of argmax and argmin."""

    axis: tuple[int, ...] | None = None
    """The axes that are reduced; empty or None for all of them."""
    keepdims: bool = False
    """Whether the reduced axes are kept with a size of 1."""
    select_last_index: bool = False
    """Whether the last of several equal elements is selected instead of the first."""
    exclude: bool = False
    """Whether the axes that are *not* in `axis` are reduced."""


def reduce_axes(rank: int, axis: Sequence[int] | None, exclude: bool) -> tuple[int, ...]:
    """Return the axes that are reduced, counted from 0, ascending.

    Raises:
        ValueError: if an axis is out of range or appears twice.

    """
    # Attributes of TVM may hold an empty list for all axes.
    return axes_of(rank, axis or None, exclude)


def reduced_shape(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """Return the shape of the result when `axes` are reduced."""
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def to_axes(axis: AxisArg) -> tuple[int, ...] | None:
    """Return the `axis` argument of a user in the form of the attributes."""
    return None if axis is None else ints(axis)


def _relate(data: TensorType, attrs: ReduceAttrs) -> TensorType:
    axes = reduce_axes(len(data.shape), attrs.axis, attrs.exclude)
    return TensorType(reduced_shape(data.shape, axes, attrs.keepdims), data.dtype)


def _relate_index(data: TensorType, attrs: ArgReduceAttrs) -> TensorType:
    axes = reduce_axes(len(data.shape), attrs.axis, attrs.exclude)
    return TensorType(reduced_shape(data.shape, axes, attrs.keepdims), "int32")


def _kernel(function: Callable[..., npt.ArrayLike]) -> Compute:
    """Return a kernel whose result has the element type of the data.

    The numpy function chooses the element type of the computation.
    """

    def compute(attrs: ReduceAttrs, data: Array) -> Array:
        axes = reduce_axes(data.ndim, attrs.axis, attrs.exclude)
        with np.errstate(all="ignore"):
            return np.asarray(function(data, axes, keepdims=attrs.keepdims)).astype(data.dtype, copy=False)

    return compute


def _accumulator(function: Callable[..., npt.ArrayLike]) -> Callable[..., npt.ArrayLike]:
    """Return `function`, accumulating in the element type of the data.

    By default, numpy accumulates small integers in a wider type.
    """

    def accumulate(data: Array, axes: tuple[int, ...], keepdims: bool) -> npt.ArrayLike:
        return function(data, axes, dtype=data.dtype, keepdims=keepdims)

    return accumulate


def _extreme(function: Callable[..., npt.ArrayLike], sign: int) -> Callable[..., npt.ArrayLike]:
    """Return `function` extended to empty data: np.max (sign 1) or np.min (sign -1).

    The maximum of no elements is the least number of the element type, and the minimum is the greatest.
    """

    def extreme(data: Array, axes: tuple[int, ...], keepdims: bool) -> npt.ArrayLike:
        if data.size:
            return function(data, axes, keepdims=keepdims)
        return function(data, axes, keepdims=keepdims, initial=_extreme_number(data.dtype, -sign))

    return extreme


def _extreme_number(dtype: np.dtype[Any], sign: int) -> object:
    """Return the greatest number of an element type (sign 1), or the least (-1)."""
    if dtype.kind == "f":
        return sign * np.inf
    if dtype.kind == "b":
        return sign > 0
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def _nan_if_empty(function: Callable[..., npt.ArrayLike]) -> Callable[..., npt.ArrayLike]:
    """Return `function`, giving nan for empty data; numpy emits a warning there."""

    def mean_or_nan(data: Array, axes: tuple[int, ...], keepdims: bool) -> npt.ArrayLike:
        if data.size:
            return function(data, axes, keepdims=keepdims)
        return np.full(_array_shape(data, axes, keepdims), np.nan)

    return mean_or_nan


def _array_shape(data: Array, axes: tuple[int, ...], keepdims: bool) -> list[int]:
    """Return the shape of the result when the axes of an array are reduced."""
    return [dim for dim in reduced_shape(data.shape, axes, keepdims) if isinstance(dim, int)]


def _index_kernel(function: Callable[..., npt.ArrayLike]) -> Compute:
    def compute(attrs: ArgReduceAttrs, data: Array) -> Array:
        axes = reduce_axes(data.ndim, attrs.axis, attrs.exclude)
        kept_axes = [axis for axis in range(data.ndim) if axis not in axes]
        # Several reduced axes are indexed as one. The last of them varies fastest.
        length = math.prod(data.shape[axis] for axis in axes)
        flat = data.transpose([*kept_axes, *axes]).reshape([*(data.shape[axis] for axis in kept_axes), length])
        shape = _array_shape(data, axes, attrs.keepdims)
        if not length:
            return np.full(shape, -1, "int32")
        position = np.asarray(function(flat[..., ::-1] if attrs.select_last_index else flat, -1))
        index = length - 1 - position if attrs.select_last_index else position
        return index.astype("int32").reshape(shape)

    return compute


def _define(name: str, function: Callable[..., npt.ArrayLike], description: str) -> Op:
    return register_op(
        name,
        arguments=("data",),
        attrs_type=ReduceAttrs,
        relation=forward(name, ("data",), _relate),
        compute=_kernel(function),
        pattern=OpPattern.COMM_REDUCE,
        level=4,
        description=description,
    )


def _define_index(name: str, function: Callable[..., npt.ArrayLike], description: str) -> Op:
    return register_op(
        name,
        arguments=("data",),
        attrs_type=ArgReduceAttrs,
        relation=forward(name, ("data",), _relate_index),
        compute=_index_kernel(function),
        pattern=OpPattern.COMM_REDUCE,
        level=4,
        description=description,
    )


_SUM = _define("sum", _accumulator(np.sum), "The sum over axes.")
_MEAN = _define("mean", _nan_if_empty(np.mean), "The mean over axes.")
_PROD = _define("prod", _accumulator(np.prod), "The product over axes.")
_MAX = _define("max", _extreme(np.max, 1), "The maximum over axes.")
_MIN = _define("min", _extreme(np.min, -1), "The minimum over axes.")
_ALL = _define("all", np.all, "Whether all elements over axes are true.")
_ANY = _define("any", np.any, "Whether one of the elements over axes is true.")
_ARGMAX = _define_index("argmax", np.argmax, "The index of the maximum over axes.")
_ARGMIN = _define_index("argmin", np.argmin, "The index of the minimum over axes.")


def _reduce(op: Op, data: Expr, axis: AxisArg, keepdims: bool, exclude: bool) -> Call:
    return Call(op, (data,), ReduceAttrs(axis=to_axes(axis), keepdims=keepdims, exclude=exclude))


def sum(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the sum over `axis`.

    Parameters:
        data: the tensor.
        axis: one axis, several axes, or None for all.
        keepdims: whether the reduced axes are kept with a size of 1.
        exclude: whether all axes but `axis` are reduced.

    """
    return _reduce(_SUM, data, axis, keepdims, exclude)


def mean(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the mean over `axis`; the mean of integers is truncated towards zero."""
    return _reduce(_MEAN, data, axis, keepdims, exclude)


def prod(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the product over `axis`."""
    return _reduce(_PROD, data, axis, keepdims, exclude)


def max(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the maximum over `axis`."""
    return _reduce(_MAX, data, axis, keepdims, exclude)


def min(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the minimum over `axis`."""
    return _reduce(_MIN, data, axis, keepdims, exclude)


def all(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return whether all elements over `axis` are true."""
    return _reduce(_ALL, data, axis, keepdims, exclude)


def any(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return whether at least one element over `axis` is true."""
    return _reduce(_ANY, data, axis, keepdims, exclude)


def _argreduce(op: Op, data: Expr, axis: AxisArg, keepdims: bool, exclude: bool, select_last_index: bool) -> Call:
    attrs = ArgReduceAttrs(axis=to_axes(axis), keepdims=keepdims, select_last_index=select_last_index, exclude=exclude)
    return Call(op, (data,), attrs)


def argmax(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, select_last_index: bool = False
) -> Call:
    """Return the index of the maximum over `axis`, as an int32.

    Several reduced axes are indexed as one. Of equal elements, the first is selected; with `select_last_index`, the
    last. The index of the maximum of no elements is -1.
    """
    return _argreduce(_ARGMAX, data, axis, keepdims, exclude, select_last_index)


def argmin(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, select_last_index: bool = False
) -> Call:
    """Return the index of the minimum over `axis`, as an int32.

    The rules for several axes, equal elements and no elements are those of `argmax`.
    """
    return _argreduce(_ARGMIN, data, axis, keepdims, exclude, select_last_index)
