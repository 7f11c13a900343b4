"""Operators on positions: argwhere, unravel_index, unique, invert_permutation."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, TupleWrapper
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, TensorType, TupleType
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward

__all__ = ["UniqueAttrs", "argwhere", "invert_permutation", "unique", "unravel_index"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueAttrs(Attrs):
    """The attributes of unique."""

    sorted: bool = True
    """Whether the elements are in ascending order; if false, in the order of their first occurrence."""
    return_counts: bool = False
    """Whether the number of occurrences of each element is returned too."""


def _relate_argwhere(condition: TensorType, attrs: None) -> TensorType:
    return TensorType((Any(), len(condition.shape)), "int32")


def _argwhere(condition: Array) -> Array:
    return np.argwhere(condition).astype("int32")


def _relate_unravel(indices: TensorType, shape: TensorType, attrs: None) -> TensorType:
    if len(indices.shape) > 1 or len(shape.shape) != 1:
        raise ValueError(f"the indices must have at most one dimension and the shape one, got {indices} and {shape}")
    return TensorType((*shape.shape, *indices.shape), indices.dtype)


def _unravel_index(indices: Array, shape: Array) -> Array:
    coordinates = np.unravel_index(indices.astype("int64"), tuple(shape.astype("int64").tolist()))
    return np.stack([np.asarray(axis) for axis in coordinates]).astype(indices.dtype)


def _relate_unique(data: TensorType, attrs: UniqueAttrs) -> TupleType:
    if len(data.shape) != 1:
        raise ValueError(f"data must have one dimension, got {data}")
    indices = TensorType(data.shape, "int32")
    counts = [indices] if attrs.return_counts else []
    return TupleType([data, indices, indices, TensorType((1,), "int32"), *counts])


def _unique(attrs: UniqueAttrs, data: Array) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    order = np.arange(len(values)) if attrs.sorted else np.argsort(first)
    firsts, counts = (_padded(numbers[order], len(data)).astype("int32") for numbers in (first, counts))
    # The element at `order[i]` in ascending order is at i in the result.
    inverse = np.argsort(order)[inverse].astype("int32")
    distinct = _padded(values[order], len(data)).astype(data.dtype)
    number = np.array([len(values)], "int32")
    return (distinct, firsts, inverse, number, *([counts] if attrs.return_counts else []))


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])


def _relate_permutation(data: TensorType, attrs: None) -> TensorType:
    if len(data.shape) != 1:
        raise ValueError(f"data must have one dimension, got {data}")
    return data


def _invert_permutation(data: Array) -> Array:
    return np.argsort(data).astype(data.dtype)


_ARGWHERE = register_op(
    "argwhere",
    arguments=("condition",),
    relation=forward("argwhere", ("condition",), _relate_argwhere),
    compute=_argwhere,
    level=10,
    description="The coordinates of the elements that are not zero.",
)
_UNRAVEL_INDEX = register_op(
    "unravel_index",
    arguments=("indices", "shape"),
    relation=forward("unravel_index", ("indices", "shape"), _relate_unravel),
    compute=_unravel_index,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The coordinates of positions in a flattened tensor of a given shape.",
)
_UNIQUE = register_op(
    "unique",
    arguments=("data",),
    attrs_type=UniqueAttrs,
    relation=forward("unique", ("data",), _relate_unique),
    compute=_unique,
    level=10,
    description="The distinct elements of a vector.",
)
_INVERT_PERMUTATION = register_op(
    "invert_permutation",
    arguments=("data",),
    relation=forward("invert_permutation", ("data",), _relate_permutation),
    compute=_invert_permutation,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The inverse of a permutation.",
)


def argwhere(condition: Expr) -> Call:
    """Return the coordinates of the elements that are not zero, a row for each.

    The number of rows is known only at run time.
    """
    return Call(_ARGWHERE, (condition,))


def unravel_index(indices: Expr, shape: Expr) -> Call:
    """Return the coordinates of positions in a flattened tensor: a row for each axis."""
    return Call(_UNRAVEL_INDEX, (indices, shape))


def unique(data: Expr, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """Return the distinct elements of a vector and their positions.

    The fields of the result are:

    - the distinct elements,
    - the index of the first occurrence of each distinct element,
    - for each element of the data, its index among the distinct elements,
    - the number of distinct elements, as a vector of one element,
    - with `return_counts`, the number of occurrences of each distinct element.

    The number of distinct elements is known only at run time. So the fields with an entry for each of them have the
    length of the data and are padded with zeros.
    """
    call = Call(_UNIQUE, (data,), UniqueAttrs(sorted=is_sorted, return_counts=return_counts))
    return TupleWrapper(call, 5 if return_counts else 4)


def invert_permutation(data: Expr) -> Call:
    """Return the inverse of a permutation: `out[data[i]] = i`."""
    return Call(_INVERT_PERMUTATION, (data,))
