"""Tensors whose elements are terms of the solver.

Integers are bit vectors of the width of their type, so overflow wraps. Floats are real numbers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from apass.external.solver import NotEncodedError
from apass.relay.ir.expr import Var
from apass.relay.ir.function import Function
from apass.relay.ir.ty import TensorType, Type

__all__ = [
    "Closure",
    "Tensor",
    "Value",
    "as_tensor",
    "bits_of",
    "cast",
    "constant",
    "is_float",
    "is_signed",
    "is_unsigned",
    "less",
    "literal",
    "mapped",
    "tensor_type",
    "variable",
]

z3: Final[Any] = import_module("z3")
"""The solver; the package has no type annotations."""

MOST_ELEMENTS: Final = 1024
"""Elements of one tensor."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of terms."""

    dtype: str
    terms: Any
    """An array of objects: each is a Bool, a BitVec or a Real of z3."""


@dataclass(frozen=True, slots=True)
class Closure:
    """A function with the values of its free variables."""

    func: Function
    values: Mapping[Var, "Value"]


Value: TypeAlias = "Tensor | Closure | tuple[Value, ...]"


def tensor_type(tp: Type) -> tuple[str, tuple[int, ...]]:
    """Return the element type and the shape of a tensor, which must be small."""
    if not isinstance(tp, TensorType):
        raise NotEncodedError(f"values of type {tp}")
    shape = tuple(dim for dim in tp.shape if isinstance(dim, int))
    if len(shape) < len(tp.shape):
        raise NotEncodedError(f"tensors of the dynamic type {tp}")
    if prod(shape) > MOST_ELEMENTS:
        raise NotEncodedError(f"a tensor of {prod(shape):,} elements, more than {MOST_ELEMENTS:,}")
    return tp.dtype, shape


def bits_of(dtype: str) -> int:
    """Return the width of an integer type; 0 for floats and bools."""
    kind = np.dtype(dtype)
    return kind.itemsize * 8 if kind.kind in "iu" else 0


def is_float(dtype: str) -> bool:
    """Return whether an element type is a float."""
    return np.dtype(dtype).kind == "f"


def is_signed(dtype: str) -> bool:
    """Return whether an element type is a signed integer."""
    return np.dtype(dtype).kind == "i"


def is_unsigned(dtype: str) -> bool:
    """Return whether an element type is an unsigned integer."""
    return np.dtype(dtype).kind == "u"


def variable(dtype: str, name: str) -> Any:
    """Return a variable of the solver."""
    if bits := bits_of(dtype):
        return z3.BitVec(name, bits)
    return z3.Real(name) if is_float(dtype) else z3.Bool(name)


def literal(dtype: str, value: Any) -> Any:
    """Return the term of a number."""
    if bits := bits_of(dtype):
        return z3.BitVecVal(int(value), bits)
    if not is_float(dtype):
        return z3.BoolVal(bool(value))
    if not np.isfinite(value):
        raise NotEncodedError(f"the constant {value}")
    numerator, denominator = float(value).as_integer_ratio()
    return z3.RealVal(numerator) / denominator


def constant(data: Any) -> Tensor:
    """Return the tensor of an array of numbers."""
    dtype = str(data.dtype)
    if data.size > MOST_ELEMENTS:
        raise NotEncodedError(f"a constant of {data.size:,} elements, more than {MOST_ELEMENTS:,}")
    return Tensor(dtype, mapped(partial(literal, dtype), data))


def less(dtype: str, lhs: Any, rhs: Any) -> Any:
    """Return whether one term is less than another."""
    if dtype == "bool":
        return z3.And(z3.Not(lhs), rhs)
    return z3.ULT(lhs, rhs) if is_unsigned(dtype) else lhs < rhs


def cast(dtype: str, kind: str, term: Any) -> Any:
    """Return a term of the type `kind` as one of the type `dtype`."""
    if dtype == "bool":
        return term if kind == "bool" else term != 0
    if kind == "bool":
        return z3.If(term, literal(dtype, 1), literal(dtype, 0))
    if is_float(dtype):
        return term if is_float(kind) else z3.ToReal(z3.BV2Int(term, is_signed=is_signed(kind)))
    if is_float(kind):
        raise NotEncodedError("casts from floats to integers")
    bits, known = bits_of(dtype), bits_of(kind)
    if bits <= known:
        return z3.Extract(bits - 1, 0, term)
    return (z3.SignExt if is_signed(kind) else z3.ZeroExt)(bits - known, term)


def mapped(function: Callable[..., Any], *arrays: Any) -> Any:
    """Return the results of a function of the elements of arrays of one shape."""
    terms = np.empty(arrays[0].shape, object)
    for index in np.ndindex(*terms.shape):
        terms[index] = function(*(array[index] for array in arrays))
    return terms


def as_tensor(value: Value) -> Tensor:
    """Return a value that must be a tensor."""
    if isinstance(value, Tensor):
        return value
    raise NotEncodedError("a tuple or a function as an argument of an operator")
