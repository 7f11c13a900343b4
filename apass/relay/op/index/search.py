"""Places of elements: argwhere, unravel_index, unique, invert_permutation."""

from dataclasses import dataclass

import numpy as np

from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import Any, TensorType, TupleType

__all__ = ["UniqueAttrs", "argwhere", "invert_permutation", "unique", "unravel_index"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueAttrs(Attrs):
    """The attributes of unique."""

    sorted: bool = True
    """Whether the elements come in ascending order; else in that of their first occurrence."""
    return_counts: bool = False
    """Whether the numbers of occurrences are returned too."""


def _relate_argwhere(condition: TensorType, attrs: None) -> TensorType:
    return TensorType((Any(), len(condition.shape)), "int32")


def _argwhere(condition: Array) -> Array:
    return np.argwhere(condition).astype("int32")


def _relate_unravel(indices: TensorType, shape: TensorType, attrs: None) -> TensorType:
    if len(indices.shape) > 1 or len(shape.shape) != 1:
        raise ValueError(
            f"the indices must have at most one dimension and the shape one, but are {indices} and {shape}"
        )
    return TensorType((*shape.shape, *indices.shape), indices.dtype)


def _unravel_index(indices: Array, shape: Array) -> Array:
    places = np.unravel_index(indices.astype("int64"), tuple(shape.astype("int64").tolist()))
    return np.stack([np.asarray(one) for one in places]).astype(indices.dtype)


def _relate_unique(data: TensorType, attrs: UniqueAttrs) -> TupleType:
    if len(data.shape) != 1:
        raise ValueError(f"data must have one dimension, but it is a {data}")
    places = TensorType(data.shape, "int32")
    counts = [places] if attrs.return_counts else []
    return TupleType([data, places, places, TensorType((1,), "int32"), *counts])


def _unique(attrs: UniqueAttrs, data: Array) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    order = np.arange(len(values)) if attrs.sorted else np.argsort(first)
    found = [_padded(one[order], len(data)) for one in (first, counts)]
    # What was place `order[i]` in ascending order is place i now.
    inverse = np.argsort(order)[inverse].astype("int32")
    made = (_padded(values[order], len(data)).astype(data.dtype), found[0].astype("int32"), inverse)
    number = np.array([len(values)], "int32")
    return (*made, number, *([found[1].astype("int32")] if attrs.return_counts else []))


def _padded(values: Array, size: int) -> Array:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])


def _relate_permutation(data: TensorType, attrs: None) -> TensorType:
    if len(data.shape) != 1:
        raise ValueError(f"data must have one dimension, but it is a {data}")
    return data


def _invert_permutation(data: Array) -> Array:
    return np.argsort(data).astype(data.dtype)


_ARGWHERE = register_op(
    "argwhere",
    arguments=("condition",),
    relation=forward("argwhere", ("condition",), _relate_argwhere),
    compute=_argwhere,
    level=10,
    description="The places of the elements that are not zero.",
)
_UNRAVEL_INDEX = register_op(
    "unravel_index",
    arguments=("indices", "shape"),
    relation=forward("unravel_index", ("indices", "shape"), _relate_unravel),
    compute=_unravel_index,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The coordinates, in a tensor of a shape, of places in the flat tensor.",
)
_UNIQUE = register_op(
    "unique",
    arguments=("data",),
    attrs_type=UniqueAttrs,
    relation=forward("unique", ("data",), _relate_unique),
    compute=_unique,
    level=10,
    description="The different elements of a vector.",
)
_INVERT_PERMUTATION = register_op(
    "invert_permutation",
    arguments=("data",),
    relation=forward("invert_permutation", ("data",), _relate_permutation),
    compute=_invert_permutation,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The permutation that undoes another.",
)


def argwhere(condition: Expr) -> Call:
    """Return the places of the elements that are not zero, a row for each; how many is known only at run time."""
    return Call(_ARGWHERE, (condition,))


def unravel_index(indices: Expr, shape: Expr) -> Call:
    """Return the coordinates, in a tensor of a shape, of places in the flat tensor: a row for each axis."""
    return Call(_UNRAVEL_INDEX, (indices, shape))


def unique(data: Expr, is_sorted: bool = True, return_counts: bool = False) -> TupleWrapper:
    """Return the different elements of a vector, each one's first place, each element's place among them, and how many.

    With `return_counts`, also how often each occurs. As the number of different elements is known only at run time,
    what there is for each of them is as long as the vector, with zeros behind the end.
    """
    call = Call(_UNIQUE, (data,), UniqueAttrs(sorted=is_sorted, return_counts=return_counts))
    return TupleWrapper(call, 5 if return_counts else 4)


def invert_permutation(data: Expr) -> Call:
    """Return the permutation that undoes another: `out[data[i]] = i`."""
    return Call(_INVERT_PERMUTATION, (data,))
