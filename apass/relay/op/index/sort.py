"""Order: sort, argsort, topk, searchsorted; equal elements keep theirs."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from apass.relay.expr import Call, Expr, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.arguments import computed, static_ints
from apass.relay.op.define.attrs import shown
from apass.relay.op.define.dims import axis_of, clash
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import forward, one_dtype
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import TensorType, TupleType

__all__ = ["ArgsortAttrs", "SearchSortedAttrs", "TopkAttrs", "argsort", "searchsorted", "sort", "topk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgsortAttrs(Attrs):
    """The attributes of sort and argsort."""

    axis: int = -1
    """The axis along which is sorted."""
    is_ascend: bool = True
    """Whether the least element comes first."""
    dtype: str = ""
    """The element type of indices; empty for int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopkAttrs(Attrs):
    """The attributes of topk."""

    k: int = shown(1)
    """How many elements are taken; below 1, all."""
    axis: int = -1
    """The axis along which they are."""
    ret_type: str = "both"
    """What is returned: `values`, `indices` or `both`."""
    is_ascend: bool = False
    """Whether the least elements are taken."""
    dtype: str = ""
    """The element type of indices; empty for int32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSortedAttrs(Attrs):
    """The attributes of searchsorted."""

    right: bool = False
    """Whether a value goes behind those that are equal to it."""
    dtype: str = "int32"
    """The element type of the result."""


def _order(data: Array, axis: int, ascend: bool) -> Array:
    """Return the places of the elements in order; equal elements stay in theirs, whichever the direction."""
    if ascend:
        return np.argsort(data, axis, kind="stable")
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
    shape = list(data.shape)
    size = shape[axis]
    if isinstance(size, int) and attrs.k > size:
        raise ValueError(
            f"there are only {size} elements along axis {axis} of {data}, but the top {attrs.k} are wanted"
        )
    if attrs.k >= 1:
        shape[axis] = attrs.k
    values, indices = TensorType(shape, data.dtype), TensorType(shape, attrs.dtype or "int32")
    if attrs.ret_type not in ("both", "values", "indices"):
        raise ValueError(f"ret_type is {attrs.ret_type!r}; it must be both, values or indices")
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
    if outer and (len(sorted_sequence.shape) != len(values.shape) or any(map(clash, outer, values.shape))):
        raise ValueError(f"{values} must have the outer dimensions of {sorted_sequence}")
    return TensorType(values.shape, attrs.dtype)


def _searchsorted(attrs: SearchSortedAttrs, sorted_sequence: Array, values: Array) -> Array:
    side: Literal["right", "left"] = "right" if attrs.right else "left"
    if sorted_sequence.ndim == 1:
        return np.asarray(np.searchsorted(sorted_sequence, values, side)).astype(attrs.dtype)
    made = np.empty(values.shape, attrs.dtype)
    for place in np.ndindex(values.shape[:-1]):
        made[place] = np.searchsorted(sorted_sequence[place], values[place], side)
    return made


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
    description="The places of the elements in order along an axis.",
)
_TOPK = register_op(
    "topk",
    arguments=("data",),
    attrs_type=TopkAttrs,
    relation=forward("topk", ("data",), _relate_topk),
    compute=_topk,
    level=6,
    description="The greatest elements along an axis, and their places.",
)
_SEARCHSORTED = register_op(
    "searchsorted",
    arguments=("sorted_sequence", "values"),
    attrs_type=SearchSortedAttrs,
    relation=forward("searchsorted", ("sorted_sequence", "values"), _relate_search),
    compute=_searchsorted,
    level=6,
    description="Where values would have to go into a sequence to keep it in order.",
)


def sort(data: Expr, axis: int = -1, is_ascend: bool | int = 1) -> Call:
    """Return the elements in order along `axis`."""
    return Call(_SORT, (data,), ArgsortAttrs(axis=axis, is_ascend=bool(is_ascend)))


def argsort(data: Expr, axis: int = -1, is_ascend: bool | int = 1, dtype: str = "int32") -> Call:
    """Return the places of the elements in order along `axis`; equal elements keep their order."""
    return Call(_ARGSORT, (data,), ArgsortAttrs(axis=axis, is_ascend=bool(is_ascend), dtype=dtype))


def topk(
    data: Expr,
    k: int | Expr = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Call | TupleWrapper:
    """Return the `k` greatest elements along `axis`, in order, and their places; all if `k` is below 1.

    `ret_type` is `both`, for which a TupleWrapper of two is returned, `values` or `indices`.
    """
    given = computed(k)
    attrs = TopkAttrs(axis=axis, ret_type=ret_type, is_ascend=is_ascend, dtype=dtype)
    if given is not None:
        call = Call(Op.get("dyn.topk"), (data, given), attrs)
    else:
        call = Call(_TOPK, (data,), replace(attrs, k=static_ints("topk", "k", k)[0]))
    return TupleWrapper(call, 2) if ret_type == "both" else call


def searchsorted(sorted_sequence: Expr, values: Expr, right: bool = False, dtype: str = "int32") -> Call:
    """Return where each value would have to go into the sequence to keep it in order, before equal ones or behind.

    A sequence of several dimensions is one for each place of the outer ones, which the values share.
    """
    return Call(_SEARCHSORTED, (sorted_sequence, values), SearchSortedAttrs(right=right, dtype=dtype))
