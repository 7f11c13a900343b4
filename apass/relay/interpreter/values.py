"""What expressions evaluate to, and how Python's values become such."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

import numpy as np

from apass.relay.adt import Constructor
from apass.relay.errors import EvaluationError
from apass.relay.ir.ndarray import Array
from apass.relay.ty import TensorType, TupleType, Type

__all__ = ["ADTValue", "FunctionValue", "RefValue", "Value", "describe_value", "is_array", "plain_array", "to_value"]

_RANKS: Final = {"b": 0, "i": 1, "u": 1, "f": 2}
"""The kinds of number; one of a kind can stand for one of a higher."""

Value: TypeAlias = "Array | tuple[Value, ...] | ADTValue | RefValue | FunctionValue"
"""A tensor (a scalar is one of no dimensions), a tuple, a value of a data type, a cell, or something to call."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ADTValue:
    """What a constructor made; equal only to itself."""

    constructor: Constructor
    """The constructor."""
    fields: "tuple[Value, ...]"
    """What it was given."""

    @property
    def tag(self) -> int:
        """The tag of the constructor."""
        return self.constructor.tag

    def __repr__(self) -> str:
        """Return the constructor, and one level of what it was given."""
        return f"{self.constructor.name_hint}({', '.join(map(describe_value, self.fields))})"


@dataclass(slots=True, eq=False, repr=False)
class RefValue:
    """A mutable cell."""

    value: "Value"
    """What it holds now."""

    def __repr__(self) -> str:
        """Return that it is a cell, and what it holds."""
        return f"ref({describe_value(self.value)})"


class FunctionValue(ABC):
    """Something that can be called: a closure, an operator, a constructor."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, *args: object) -> "Value":
        """Return the value for arguments, which may be anything that `to_value` takes."""


def is_array(value: object) -> TypeGuard[Array]:
    """Tell whether a value is an array."""
    return isinstance(value, np.ndarray)


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def describe_value(value: object) -> str:
    """Return what a value is, in a few characters.

    >>> describe_value((np.zeros((2, 3), "float32"), np.array(1)))
    '(float32[2, 3], int64[])'
    """
    if is_array(value):
        return f"{value.dtype}{list(value.shape)}"
    if _is_tuple(value):
        return f"({', '.join('(...)' if isinstance(one, tuple) else describe_value(one) for one in value)})"
    if isinstance(value, ADTValue):
        return f"{value.constructor.name_hint}({'...' if value.fields else ''})"
    return "ref(...)" if isinstance(value, RefValue) else repr(value)


def plain_array(value: object) -> Array:
    """Return an array, or a numpy scalar, as a plain array."""
    return np.asarray(value)


def to_value(given: object, ty: Type | None = None, what: str = "the value") -> "Value":
    """Return a Python value as one of Relay: numbers and lists as arrays of the element type that is wanted.

    A number of which no type is wanted becomes one of 32 bits, as in `relay.const`.

    Raises:
        EvaluationError: if it is not of the type; `what` names it.

    >>> to_value(1.5).dtype, to_value([1, 2], TensorType((2,), "int64")).dtype
    (dtype('float32'), dtype('int64'))
    """
    if isinstance(given, ADTValue | RefValue | FunctionValue):
        return given
    if _is_tuple(given) and (ty is None or isinstance(ty, TupleType)):
        return _to_tuple(given, ty, what)
    if ty is not None and not isinstance(ty, TensorType):
        raise EvaluationError(f"{what} must be a {ty}, but was given {describe_value(given)}")
    array = given if is_array(given) else _to_array(given, ty, what)
    if ty is not None and not _fits(array, ty):
        raise EvaluationError(f"{what} must be a {ty}, but was given {describe_value(array)}")
    return plain_array(array)


def _to_tuple(given: Sequence[object], ty: TupleType | None, what: str) -> "tuple[Value, ...]":
    types: Sequence[Type | None] = [None] * len(given) if ty is None else ty.fields
    if len(types) != len(given):
        raise EvaluationError(f"{what} must have {len(types)} fields, but was given {len(given)}")
    return tuple(
        to_value(one, wanted, f"field {place} of {what}")
        for place, (one, wanted) in enumerate(zip(given, types, strict=True))
    )


def _to_array(given: object, ty: TensorType | None, what: str) -> Array:
    array: Array = np.asarray(given)
    if array.dtype.kind not in _RANKS:
        raise EvaluationError(f"{what} must be an array, a number or a tuple of these, not {given!r}")
    if isinstance(given, np.generic):
        return array
    narrowed = {"int64": "int32", "float64": "float32"}.get(str(array.dtype), str(array.dtype))
    wanted = np.dtype(narrowed if ty is None else ty.dtype)
    if _RANKS[array.dtype.kind] > _RANKS.get(wanted.kind, 0):
        raise EvaluationError(f"{what} must be a {ty}, but was given {given!r}")
    return array.astype(wanted)


def _fits(array: Array, ty: TensorType) -> bool:
    return (
        str(array.dtype) == ty.dtype
        and array.ndim == len(ty.shape)
        and all(not isinstance(dim, int) or dim == size for dim, size in zip(ty.shape, array.shape, strict=True))
    )
