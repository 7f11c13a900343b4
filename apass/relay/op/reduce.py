"""Reductions over axes: sum, mean, max, argmax, ..."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apass.relay.expr import Call, Compute, Expr, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.dims import axes_of, ints
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward
from apass.relay.ty import Dim, TensorType

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
"""What may be given for the axes of a reduction: one, several, or None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceAttrs(Attrs):
    """The attributes of reductions."""

    axis: tuple[int, ...] | None = None
    """The axes that are reduced; none at all, or None, for all of them."""
    keepdims: bool = False
    """Whether the reduced axes stay, with a size of 1."""
    exclude: bool = False
    """Whether the axes that are *not* named are reduced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgReduceAttrs(Attrs):
    """The attributes of argmax and argmin."""

    axis: tuple[int, ...] | None = None
    """The axes that are reduced; none at all, or None, for all of them."""
    keepdims: bool = False
    """Whether the reduced axes stay, with a size of 1."""
    select_last_index: bool = False
    """Whether the last of several equal elements is taken instead of the first."""
    exclude: bool = False
    """Whether the axes that are *not* named are reduced."""


def reduce_axes(rank: int, axis: Sequence[int] | None, exclude: bool) -> tuple[int, ...]:
    """Return the axes that are reduced, counted from 0, ascending.

    Raises:
        ValueError: if there is no such axis.

    """
    return axes_of(rank, axis or None, exclude)


def reduced_shape(shape: Sequence[Dim], axes: Sequence[int], keepdims: bool) -> tuple[Dim, ...]:
    """Return the shape that is left when `axes` are reduced."""
    if keepdims:
        return tuple(1 if place in axes else dim for place, dim in enumerate(shape))
    return tuple(dim for place, dim in enumerate(shape) if place not in axes)


def to_axes(axis: AxisArg) -> tuple[int, ...] | None:
    """Return the axes that a user gave, as attributes hold them."""
    return None if axis is None else ints(axis)


def _relate(data: TensorType, attrs: ReduceAttrs) -> TensorType:
    axes = reduce_axes(len(data.shape), attrs.axis, attrs.exclude)
    return TensorType(reduced_shape(data.shape, axes, attrs.keepdims), data.dtype)


def _relate_index(data: TensorType, attrs: ArgReduceAttrs) -> TensorType:
    axes = reduce_axes(len(data.shape), attrs.axis, attrs.exclude)
    return TensorType(reduced_shape(data.shape, axes, attrs.keepdims), "int32")


def _kernel(function: Callable[..., npt.ArrayLike]) -> Compute:
    """Return the kernel of a numpy function that finds its own element type; the result has that of the data."""

    def compute(attrs: ReduceAttrs, data: Array) -> Array:
        axes = reduce_axes(data.ndim, attrs.axis, attrs.exclude)
        with np.errstate(all="ignore"):
            return np.asarray(function(data, axes, keepdims=attrs.keepdims)).astype(data.dtype, copy=False)

    return compute


def _accumulator(function: Callable[..., npt.ArrayLike]) -> Callable[..., npt.ArrayLike]:
    """Return `function` accumulating in the element type of the data; numpy widens small integers."""

    def accumulate(data: Array, axes: tuple[int, ...], keepdims: bool) -> npt.ArrayLike:
        return function(data, axes, dtype=data.dtype, keepdims=keepdims)

    return accumulate


def _extreme(function: Callable[..., npt.ArrayLike], sign: int) -> Callable[..., npt.ArrayLike]:
    """Return `function`, the greatest (sign 1) or least (-1); of no elements it is the other end of the numbers."""

    def extreme(data: Array, axes: tuple[int, ...], keepdims: bool) -> npt.ArrayLike:
        if data.size:
            return function(data, axes, keepdims=keepdims)
        return function(data, axes, keepdims=keepdims, initial=_end_of(data.dtype, -sign))

    return extreme


def _end_of(dtype: np.dtype[Any], sign: int) -> object:
    """Return the greatest number of an element type (sign 1), or the least (-1)."""
    if dtype.kind == "f":
        return sign * np.inf
    if dtype.kind == "b":
        return sign > 0
    return np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min


def _defined(function: Callable[..., npt.ArrayLike]) -> Callable[..., npt.ArrayLike]:
    """Return `function` that gives nan for no elements, where numpy would warn."""

    def defined(data: Array, axes: tuple[int, ...], keepdims: bool) -> npt.ArrayLike:
        if data.size:
            return function(data, axes, keepdims=keepdims)
        return np.full(_reduced(data, axes, keepdims), np.nan)

    return defined


def _reduced(data: Array, axes: tuple[int, ...], keepdims: bool) -> list[int]:
    """Return the shape that is left of an array."""
    return [dim for dim in reduced_shape(data.shape, axes, keepdims) if isinstance(dim, int)]


def _index_kernel(function: Callable[..., npt.ArrayLike]) -> Compute:
    def compute(attrs: ArgReduceAttrs, data: Array) -> Array:
        axes = reduce_axes(data.ndim, attrs.axis, attrs.exclude)
        kept = [axis for axis in range(data.ndim) if axis not in axes]
        # Several reduced axes are counted as one, the last of them fastest.
        length = math.prod(data.shape[axis] for axis in axes)
        flat = data.transpose([*kept, *axes]).reshape([*(data.shape[axis] for axis in kept), length])
        shape = _reduced(data, axes, attrs.keepdims)
        if not length:
            return np.full(shape, -1, "int32")
        found = np.asarray(function(flat[..., ::-1] if attrs.select_last_index else flat, -1))
        index = length - 1 - found if attrs.select_last_index else found
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
_MEAN = _define("mean", _defined(np.mean), "The mean over axes.")
_PROD = _define("prod", _accumulator(np.prod), "The product over axes.")
_MAX = _define("max", _extreme(np.max, 1), "The greatest element over axes.")
_MIN = _define("min", _extreme(np.min, -1), "The least element over axes.")
_ALL = _define("all", np.all, "Whether all elements over axes are true.")
_ANY = _define("any", np.any, "Whether one of the elements over axes is true.")
_ARGMAX = _define_index("argmax", np.argmax, "The place of the greatest element over axes.")
_ARGMIN = _define_index("argmin", np.argmin, "The place of the least element over axes.")


def _reduce(op: Op, data: Expr, axis: AxisArg, keepdims: bool, exclude: bool) -> Call:
    return Call(op, (data,), ReduceAttrs(axis=to_axes(axis), keepdims=keepdims, exclude=exclude))


def sum(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the sum over `axis`: one, several, or all for None; over all others with `exclude`."""
    return _reduce(_SUM, data, axis, keepdims, exclude)


def mean(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the mean over `axis`; that of integers is truncated towards zero."""
    return _reduce(_MEAN, data, axis, keepdims, exclude)


def prod(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the product over `axis`."""
    return _reduce(_PROD, data, axis, keepdims, exclude)


def max(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the greatest element over `axis`."""
    return _reduce(_MAX, data, axis, keepdims, exclude)


def min(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return the least element over `axis`."""
    return _reduce(_MIN, data, axis, keepdims, exclude)


def all(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return whether all elements over `axis` are true."""
    return _reduce(_ALL, data, axis, keepdims, exclude)


def any(data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False) -> Call:
    """Return whether one of the elements over `axis` is true."""
    return _reduce(_ANY, data, axis, keepdims, exclude)


def _argreduce(op: Op, data: Expr, axis: AxisArg, keepdims: bool, exclude: bool, select_last_index: bool) -> Call:
    attrs = ArgReduceAttrs(axis=to_axes(axis), keepdims=keepdims, select_last_index=select_last_index, exclude=exclude)
    return Call(op, (data,), attrs)


def argmax(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, select_last_index: bool = False
) -> Call:
    """Return the place of the greatest element over `axis`, counted over all reduced axes; the first of several.

    Of no elements it is -1.
    """
    return _argreduce(_ARGMAX, data, axis, keepdims, exclude, select_last_index)


def argmin(
    data: Expr, axis: AxisArg = None, keepdims: bool = False, exclude: bool = False, select_last_index: bool = False
) -> Call:
    """Return the place of the least element over `axis`, counted over all reduced axes; the first of several.

    Of no elements it is -1.
    """
    return _argreduce(_ARGMIN, data, axis, keepdims, exclude, select_last_index)
