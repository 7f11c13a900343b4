"""Values of the evaluator, and conversion of Python values to them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard, cast

import numpy as np

from apass.relay.errors import EvaluationError
from apass.relay.ir.adt import Constructor
from apass.relay.ir.expr import Constant
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, TupleType, Type

__all__ = [
    "ADTValue",
    "FunctionValue",
    "RefValue",
    "Value",
    "describe_value",
    "is_array",
    "plain_array",
    "to_argument",
    "to_value",
]

_RANKS: Final = {"b": 0, "i": 1, "u": 1, "f": 2}
"""Ranks of numpy's kinds of numbers. A number converts to a kind of equal or higher rank."""

Value: TypeAlias = "Array | tuple[Value, ...] | ADTValue | RefValue | FunctionValue"
"""A tensor (scalars have no dimensions), tuple, value of a data type, cell or function."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ADTValue:
    """A value of an algebraic data type. Equal only to itself."""

    constructor: Constructor
    """The constructor."""
    fields: "tuple[Value, ...]"
    """The arguments of the constructor."""

    @property
    def tag(self) -> int:
        """The tag of the constructor."""
        return self.constructor.tag

    def __repr__(self) -> str:
        """Return the constructor and one level of its arguments."""
        return f"{self.constructor.name_hint}({', '.join(map(describe_value, self.fields))})"


@dataclass(slots=True, eq=False, repr=False)
class RefValue:
    """A mutable cell."""

    value: "Value"
    """The current value."""

    def __repr__(self) -> str:
        """Return `ref(...)` with a short text of the value."""
        return f"ref({describe_value(self.value)})"


class FunctionValue(ABC):
    """Base of callable values: closures, operators and constructors."""

    __slots__ = ()

    @abstractmethod
    def __call__(self, *args: object) -> "Value":
        """Return the value of a call. `to_value` converts the arguments."""


def is_array(value: object) -> TypeGuard[Array]:
    """Return whether a value is an array."""
    return isinstance(value, np.ndarray)


def _is_tuple(value: object) -> TypeGuard[tuple[object, ...]]:
    return isinstance(value, tuple)


def describe_value(value: object) -> str:
    """Return a short text of the type of a value.

    >>> describe_value((np.zeros((2, 3), "float32"), np.array(1)))
    '(float32[2, 3], int64[])'
    """
    if is_array(value):
        return f"{value.dtype}{list(value.shape)}"
    if _is_tuple(value):
        return f"({', '.join('(...)' if isinstance(item, tuple) else describe_value(item) for item in value)})"
    if isinstance(value, ADTValue):
        return f"{value.constructor.name_hint}({'...' if value.fields else ''})"
    return "ref(...)" if isinstance(value, RefValue) else repr(value)


def plain_array(value: object) -> Array:
    """Return an array or numpy scalar as a plain numpy array."""
    return np.asarray(value)


def to_value(obj: object, ty: Type | None = None, name: str = "the value") -> "Value":
    """Convert a Python object to a value of the evaluator.

    Numbers and lists become arrays. Without `ty`, 64-bit numbers become 32-bit numbers, as in `relay.const`.

    Parameters:
        obj: an array, a number, a list of numbers, a tuple, or a value of the evaluator.
        ty: the required type.
        name: the name of the object in error messages.

    Raises:
        EvaluationError: if the object does not have the type.

    >>> to_value(1.5).dtype, to_value([1, 2], TensorType((2,), "int64")).dtype
    (dtype('float32'), dtype('int64'))
    """
    if isinstance(obj, ADTValue | RefValue | FunctionValue):
        return obj
    if _is_tuple(obj) and (ty is None or isinstance(ty, TupleType)):
        return _to_tuple(obj, ty, name)
    if ty is not None and not isinstance(ty, TensorType):
        raise EvaluationError(f"{name} must be of type {ty}, got {describe_value(obj)}")
    array = obj if is_array(obj) else _to_array(obj, ty, name)
    if ty is not None and not _has_type(array, ty):
        raise EvaluationError(f"{name} must be of type {ty}, got {describe_value(array)}")
    return plain_array(array)


def to_argument(obj: object, ty: Type | None, name: str = "the argument") -> "Value":
    """Convert an argument of an executor to a value, as TVM's executors do.

    Arrays and numbers are converted to the element type of the parameter. A Constant is its data. A list or tuple for a
    parameter of a tuple type is a tuple.

    Raises:
        EvaluationError: if the object does not have the type after the conversion.

    >>> to_argument([1, np.arange(2.0)], TupleType([TensorType((), "float32"), TensorType((2,), "int8")]))
    (array(1., dtype=float32), array([0, 1], dtype=int8))
    """
    items = _items_of(obj)
    if items is not None and (isinstance(ty, TupleType) or (ty is None and not _are_numbers(items))):
        types = ty.fields if isinstance(ty, TupleType) and len(ty.fields) == len(items) else [None] * len(items)
        pairs = enumerate(zip(items, types, strict=True))
        fields = [to_argument(item, field, f"field {index} of {name}") for index, (item, field) in pairs]
        return to_value(tuple(fields), ty, name)
    value = to_value(obj.data if isinstance(obj, Constant) else obj, None, name)
    if isinstance(ty, TensorType) and is_array(value):
        try:
            value = value.astype(ty.dtype)
        except TypeError:
            raise EvaluationError(f"{name} must be of type {ty}, but numpy has no element type {ty.dtype}") from None
    return to_value(value, ty, name)


def _items_of(obj: object) -> Sequence[object] | None:
    return cast("Sequence[object]", obj) if isinstance(obj, list | tuple) else None


def _are_numbers(items: object) -> bool:
    """Return whether a list contains numbers and lists of numbers only."""
    stack: list[object] = [items]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif not isinstance(item, int | float):
            return False
    return True


def _to_tuple(items: Sequence[object], ty: TupleType | None, name: str) -> "tuple[Value, ...]":
    types: Sequence[Type | None] = [None] * len(items) if ty is None else ty.fields
    if len(types) != len(items):
        raise EvaluationError(f"{name} must have {len(types)} fields, got {len(items)}")
    return tuple(
        to_value(item, field_type, f"field {index} of {name}")
        for index, (item, field_type) in enumerate(zip(items, types, strict=True))
    )


def _to_array(obj: object, ty: TensorType | None, name: str) -> Array:
    try:
        array: Array = np.asarray(obj)
    except ValueError as error:
        raise EvaluationError(f"{name} must be an array, but its rows differ in length: {error}") from None
    if array.dtype.kind not in _RANKS:
        raise EvaluationError(f"{name} must be an array, a number or a tuple of these, got {obj!r}")
    if isinstance(obj, np.generic):
        return array
    narrowed = {"int64": "int32", "float64": "float32"}.get(str(array.dtype), str(array.dtype))
    dtype = np.dtype(narrowed if ty is None else ty.dtype)
    if _RANKS[array.dtype.kind] > _RANKS.get(dtype.kind, 0):
        raise EvaluationError(f"{name} must be of type {ty}, got {obj!r}")
    return array.astype(dtype)


def _has_type(array: Array, ty: TensorType) -> bool:
    return (
        str(array.dtype) == ty.dtype
        and array.ndim == len(ty.shape)
        and all(not isinstance(dim, int) or dim == size for dim, size in zip(ty.shape, array.shape, strict=True))
    )
