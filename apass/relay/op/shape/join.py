"""Operators that join and split tensors: concatenate, stack, split."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, TupleWrapper
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType, TupleType
from apass.relay.op.define.arguments import tuple_of
from apass.relay.op.define.dims import axis_of, ints, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, forward_tuple, one_dtype

__all__ = ["ConcatenateAttrs", "SplitAttrs", "StackAttrs", "concatenate", "split", "stack"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcatenateAttrs(Attrs):
    """The attributes of concatenate."""

    axis: int = 0
    """The axis along which the tensors are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAttrs(Attrs):
    """The attributes of stack."""

    axis: Integer = 0
    """The new axis of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAttrs(Attrs):
    """The attributes of split."""

    indices_or_sections: int | tuple[int, ...]
    """The number of equal parts, or the positions at which all parts but the first begin."""
    axis: int = 0
    """The axis along which the tensor is split."""


def _check_shapes(tensors: Sequence[TensorType], ignored_axis: int | None = None) -> None:
    """Check that tensors have the same shape, except for `ignored_axis`.

    Raises:
        ValueError: if they differ. A symbolic dimension may be equal to any other.

    """
    text = " and ".join(map(str, tensors))
    if not tensors or len({len(tensor.shape) for tensor in tensors}) > 1:
        raise ValueError(f"expected one or more tensors with the same number of dimensions, got {text or 'none'}")
    for axis, dims in enumerate(zip(*(tensor.shape for tensor in tensors), strict=True)):
        if axis != ignored_axis and len({dim for dim in dims if isinstance(dim, int)}) > 1:
            raise ValueError(f"the tensors differ in axis {axis}: {text}")


def _relate_concatenate(data: tuple[TensorType, ...], attrs: ConcatenateAttrs) -> TensorType:
    axis = axis_of(len(data[0].shape), attrs.axis) if data else 0
    _check_shapes(data, axis)
    length: Dim = 0
    for tensor in data:
        length = length + tensor.shape[axis]
    shape: list[Dim] = []
    for dims in zip(*(tensor.shape for tensor in data), strict=True):
        known = [dim for dim in dims if not isinstance(dim, Any)]
        # TVM takes the known one of several dimensions only if the length of the result is unknown.
        is_known = len(known) == len(dims) or (known and isinstance(length, Any))
        shape.append(known[0] if is_known else Any())
    shape[axis] = length
    return TensorType(shape, one_dtype(*data))


def _concatenate(attrs: ConcatenateAttrs, data: tuple[Array, ...]) -> Array:
    return np.concatenate(data, attrs.axis)


def _relate_stack(data: tuple[TensorType, ...], attrs: StackAttrs) -> TensorType:
    _check_shapes(data)
    shape: list[Dim] = list(data[0].shape)
    shape.insert(axis_of(len(shape) + 1, attrs.axis), len(data))
    return TensorType(shape, one_dtype(*data))


def _stack(attrs: StackAttrs, data: tuple[Array, ...]) -> Array:
    return np.stack(data, attrs.axis)


def _relate_split(data: TensorType, attrs: SplitAttrs) -> TupleType:
    axis = axis_of(len(data.shape), attrs.axis)
    lengths = _lengths(data.shape[axis], attrs.indices_or_sections)
    parts = [(*data.shape[:axis], length, *data.shape[axis + 1 :]) for length in lengths]
    return TupleType([TensorType(part, data.dtype) for part in parts])


def _lengths(dim: Dim, cuts: int | Sequence[int]) -> list[Dim]:
    if isinstance(cuts, int):
        if cuts < 1 or (isinstance(dim, int) and dim % cuts):
            raise ValueError(f"{dim} elements cannot be split into {cuts} equal parts")
        return [dim // cuts] * cuts
    starts = (0, *cuts)
    if any(a > b for a, b in pairwise(starts)) or (isinstance(dim, int) and starts[-1] > dim):
        raise ValueError(f"{dim} elements cannot be split at {shape_text(cuts)}; the positions must ascend up to {dim}")
    return [*(b - a for a, b in pairwise(starts)), dim - starts[-1]]


def _split(attrs: SplitAttrs, data: Array) -> tuple[Array, ...]:
    return tuple(np.split(data, attrs.indices_or_sections, attrs.axis))


_CONCATENATE = register_op(
    "concatenate",
    arguments=("data",),
    attrs_type=ConcatenateAttrs,
    relation=forward_tuple("concatenate", "data", _relate_concatenate),
    compute=_concatenate,
    pattern=OpPattern.INJECTIVE,
    level=1,
    description="Several tensors joined along an axis.",
)
_STACK = register_op(
    "stack",
    arguments=("data",),
    attrs_type=StackAttrs,
    relation=forward_tuple("stack", "data", _relate_stack),
    compute=_stack,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="Several tensors of one shape, joined along a new axis.",
)
_SPLIT = register_op(
    "split",
    arguments=("data",),
    attrs_type=SplitAttrs,
    relation=forward("split", ("data",), _relate_split),
    compute=_split,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The parts of a tensor along an axis.",
)


def concatenate(data: Expr | TupleWrapper | Iterable[Expr], axis: int) -> Call:
    """Return several tensors, or the fields of a tuple, joined along `axis`.

    Raises:
        ValueError: if `data` is empty.

    """
    return Call(_CONCATENATE, (tuple_of("concatenate", data),), ConcatenateAttrs(axis=axis))


def stack(data: Expr | TupleWrapper | Iterable[Expr], axis: int) -> Call:
    """Return several tensors of one shape, or the fields of a tuple, along a new axis.

    Raises:
        ValueError: if `data` is empty.

    """
    return Call(_STACK, (tuple_of("stack", data),), StackAttrs(axis=axis))


def split(data: Expr, indices_or_sections: int | Iterable[int], axis: int = 0) -> TupleWrapper:
    """Return the parts of the tensor along `axis`.

    A number means that many equal parts. Otherwise the parts are split at the given positions.

    >>> from apass.relay.ir.expr import var
    >>> head, tail = split(var("x", shape=(5,)), [2])
    """
    cuts = indices_or_sections if isinstance(indices_or_sections, int) else ints(indices_or_sections)
    call = Call(_SPLIT, (data,), SplitAttrs(indices_or_sections=cuts, axis=axis))
    return TupleWrapper(call, cuts if isinstance(cuts, int) else len(cuts) + 1)
