"""Stable sorting and searching: sort, argsort, topk, searchsorted."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op, TupleWrapper
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, TupleType
from apass.relay.op.define.arguments import computed_expr, static_ints
from apass.relay.op.define.attrs import always_printed
from apass.relay.op.define.dims import axis_of, dims_differ
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import forward, one_dtype

__all__ = ["ArgsortAttrs", "SearchSortedAttrs", "TopkAttrs", "argsort", "searchsorted", "sort", "topk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgsortAttrs(Attrs):
    """The attributes of sort and argsort."""

    axis: int = -1
    """The axis that is sorted."""
    is_ascend: bool = True
    """Whether the order is ascending."""
    dtype: str = ""
    """The element type of indices; empty for int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkAttrs(Attrs):
    """The attributes of topk."""

    k: Integer = always_printed(1)
    """The number of elements that are selected; below 1, all."""
    axis: int = -1
    """The axis that elements are selected along."""
    ret_type: str = "both"
    """The results that are returned: `values`, `indices` or `both`."""
    is_ascend: bool = False
    """Whether the smallest elements are selected instead of the largest."""
    dtype: str = ""
    """The element type of indices; empty for int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSortedAttrs(Attrs):
    """The attributes of searchsorted."""

    right: bool = False
    """Whether a value is inserted after the elements equal to it."""
    dtype: str = "int32"
    """The element type of the result."""


def _order(data: Array, axis: int, ascend: bool) -> Array:
    """Return the indices of the elements in order; equal elements keep their order."""
    if ascend:
        return np.argsort(data, axis, kind="stable")
    # Reversing an ascending order would also reverse equal elements: sort the reversed data, so that they are reversed
    # twice.
    backwards = np.argsort(np.flip(data, axis), axis, kind="stable")
    return np.asarray(data.shape[axis] - 1 - np.flip(backwards, axis))


def _relate_sort(data: TensorType, attrs: ArgsortAttrs) -> TensorType:
    axis_of(len(data.shape), attrs.axis)
    return data


def _sort(attrs: ArgsortAttrs, data: Array) -> Array:
    return np.take_along_axis(data, _order(data, attrs.axis, attrs.is_ascend).astype("int64"), attrs.axis)


def _relate_argsort(data: TensorType, attrs: ArgsortAttrs) -> TensorType:
    axis_of(len(data.shape), attrs.axis)
    return TensorType(data.shape, attrs.dtype or "int32")


def _argsort(attrs: ArgsortAttrs, data: Array) -> Array:
    return _order(data, attrs.axis, attrs.is_ascend).astype(attrs.dtype or "int32")


def _relate_topk(data: TensorType, attrs: TopkAttrs) -> TensorType | TupleType:
    axis = axis_of(len(data.shape), attrs.axis)
    shape: list[Dim] = list(data.shape)
    size = shape[axis]
    if isinstance(size, int) and attrs.k > size:
        raise ValueError(f"the top {attrs.k} elements are requested, but axis {axis} of {data} has only {size}")
    if attrs.k >= 1:
        shape[axis] = attrs.k
    values, indices = TensorType(shape, data.dtype), TensorType(shape, attrs.dtype or "int32")
    if attrs.ret_type not in ("both", "values", "indices"):
        raise ValueError(f"ret_type must be both, values or indices, got {attrs.ret_type!r}")
    if attrs.ret_type == "both":
        return TupleType([values, indices])
    return values if attrs.ret_type == "values" else indices


def _topk(attrs: TopkAttrs, data: Array) -> Array | tuple[Array, ...]:
    order = _order(data, attrs.axis, attrs.is_ascend).astype("int64")
    count = attrs.k if attrs.k >= 1 else data.shape[attrs.axis]
    chosen = np.take(order, np.arange(count), attrs.axis)
    values, indices = np.take_along_axis(data, chosen, attrs.axis), chosen.astype(attrs.dtype or "int32")
    return (values, indices) if attrs.ret_type == "both" else values if attrs.ret_type == "values" else indices


def _relate_search(sorted_sequence: TensorType, values: TensorType, attrs: SearchSortedAttrs) -> TensorType:
    one_dtype(sorted_sequence, values)
    outer = sorted_sequence.shape[:-1]
    if outer and (len(sorted_sequence.shape) != len(values.shape) or any(map(dims_differ, outer, values.shape))):
        raise ValueError(f"the values must have the outer dimensions of {sorted_sequence}, got {values}")
    return TensorType(values.shape, attrs.dtype)


def _searchsorted(attrs: SearchSortedAttrs, sorted_sequence: Array, values: Array) -> Array:
    side: Literal["right", "left"] = "right" if attrs.right else "left"
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, side)).astype(attrs.dtype)
    result = np.empty(values.shape, attrs.dtype)
    for index in np.ndindex(values.shape[:-1]):
        result[index] = np.searchsorted(sorted_sequence[index], values[index], side)
    return result


_SORT = register_op(
    "sort",
    arguments=("data",),
    attrs_type=ArgsortAttrs,
    relation=forward("sort", ("data",), _relate_sort),
    compute=_sort,
    level=6,
    description="The elements in order along an axis.",
)
_ARGSORT = register_op(
    "argsort",
    arguments=("data",),
    attrs_type=ArgsortAttrs,
    relation=forward("argsort", ("data",), _relate_argsort),
    compute=_argsort,
    level=6,
    description="The indices of the elements in order along an axis.",
)
_TOPK = register_op(
    "topk",
    arguments=("data",),
    attrs_type=TopkAttrs,
    relation=forward("topk", ("data",), _relate_topk),
    compute=_topk,
    level=6,
    description="The largest elements along an axis, and their indices.",
)
_SEARCHSORTED = register_op(
    "searchsorted",
    arguments=("sorted_sequence", "values"),
    attrs_type=SearchSortedAttrs,
    relation=forward("searchsorted", ("sorted_sequence", "values"), _relate_search),
    compute=_searchsorted,
    level=6,
    description="The indices at which values can be inserted into a sorted sequence.",
)


def sort(data: Expr, axis: int = -1, is_ascend: bool | int = 1) -> Call:
    """Return the elements sorted along `axis`; equal elements keep their order."""
    return Call(_SORT, (data,), ArgsortAttrs(axis=axis, is_ascend=bool(is_ascend)))


def argsort(data: Expr, axis: int = -1, is_ascend: bool | int = 1, dtype: str = "int32") -> Call:
    """Return the indices of the elements in order along `axis`.

    Equal elements keep their order.
    """
    return Call(_ARGSORT, (data,), ArgsortAttrs(axis=axis, is_ascend=bool(is_ascend), dtype=dtype))


def topk(
    data: Expr,
    k: int | Expr = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Call | TupleWrapper:
    """Return the `k` largest elements along `axis`, in order, and their indices.

    If `k` is below 1, return all elements. `ret_type` is `values`, `indices` or `both`. For `both`, the result is a
    TupleWrapper of two fields.
    """
    expression = computed_expr(k)
    attrs = TopkAttrs(axis=axis, ret_type=ret_type, is_ascend=is_ascend, dtype=dtype)
    if expression is not None:
        call = Call(Op.get("dyn.topk"), (data, expression), attrs)
    else:
        call = Call(_TOPK, (data,), replace(attrs, k=static_ints("topk", "k", k)[0]))
    return TupleWrapper(call, 2) if ret_type == "both" else call


def searchsorted(sorted_sequence: Expr, values: Expr, right: bool = False, dtype: str = "int32") -> Call:
    """Return the index at which each value keeps the sequence sorted.

    With `right`, this is after the elements that are equal to the value, else before them. A sequence of several
    dimensions is one sequence for each index of the outer dimensions, which the values share.
    """
    return Call(_SEARCHSORTED, (sorted_sequence, values), SearchSortedAttrs(right=right, dtype=dtype))
