"""The operators that are encoded for the solver."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from importlib import import_module
from math import prod
from operator import add, mul
from typing import Any, Final, TypeAlias

import numpy as np

from apass.external.solver import NotEncodedError
from apass.relay.equivalence.terms import (
    Tensor,
    Value,
    as_tensor,
    cast,
    is_float,
    is_unsigned,
    less,
    literal,
    mapped,
    tensor_type,
)
from apass.relay.interpreter.registers import kernel_of
from apass.relay.ir.expr import Call, Op
from apass.relay.ir.ty import TupleType, Type
from apass.relay.op.reduce import reduce_axes

__all__ = ["Claims", "apply_operator"]

z3: Final[Any] = import_module("z3")


@dataclass
class Claims:
    """What is claimed about a module besides its results."""

    defined: list[Any] = field(default_factory=list[Any])
    """The conditions under which the module has a result."""
    unknown_functions: set[str] = field(default_factory=set[str])
    """The operators about which the solver knows nothing."""

    def require(self, condition: Any) -> None:
        """Add a condition without which there is no result."""
        self.defined.append(condition)


def apply_operator(claims: Claims, call: Call, arguments: Sequence[Value]) -> Value:
    """Return the result of a call of an operator.

    Raises:
        NotEncodedError: if the operator, its attributes or its types are not encoded.

    """
    # The attributes of an operator may ask for another type.
    value = _applied(claims, call, arguments)
    if isinstance(value, Tensor) and (value.dtype, value.terms.shape) != tensor_type(call.checked_type):
        raise NotEncodedError(f"a result of type {call.checked_type}")
    return value


def _applied(claims: Claims, call: Call, arguments: Sequence[Value]) -> Value:
    name = call.op.name if isinstance(call.op, Op) else ""
    if name in _MOVES:
        return _moved(call, arguments)
    if name in _UNARY:
        return _unary(_UNARY[name], as_tensor(arguments[0]))
    if name in _BINARY:
        return _binary(_BINARY[name], call, *map(as_tensor, arguments))
    if name in _PARTIAL:
        return _partial(name, claims, call, *map(as_tensor, arguments))
    if name in _REDUCTIONS:
        return _reduced(_REDUCTIONS[name], call, as_tensor(arguments[0]))
    if name in _UNKNOWN:
        return _unknown(name, claims, list(map(as_tensor, arguments)))
    if name in _OTHERS:
        return _OTHERS[name](claims, call, list(map(as_tensor, arguments)))
    raise NotEncodedError(f"operator {name}")


_Unary: TypeAlias = Callable[[str, Any], Any]
"""Takes the element type and a term."""

_Binary: TypeAlias = Callable[[str, Any, Any], Any]
"""Takes the element type and two terms."""


def _unary(function: _Unary, data: Tensor) -> Tensor:
    return Tensor(data.dtype, mapped(partial(function, data.dtype), data.terms))


def _binary(function: _Binary, call: Call, lhs: Tensor, rhs: Tensor) -> Tensor:
    dtype, _ = tensor_type(call.checked_type)
    return Tensor(dtype, mapped(partial(function, lhs.dtype), *np.broadcast_arrays(lhs.terms, rhs.terms)))


def _partial(name: str, claims: Claims, call: Call, lhs: Tensor, rhs: Tensor) -> Tensor:
    """Apply an operator whose result for some operands is an unknown number."""
    function, is_shift = _PARTIAL[name]
    if is_float(lhs.dtype) and name != "divide":
        raise NotEncodedError(f"operator {name} of {lhs.dtype}")

    def apply(dtype: str, one: Any, other: Any) -> Any:
        condition = z3.ULT(other, other.size()) if is_shift else other != 0
        claims.require(condition)
        unknown = z3.Function(f"{name} {dtype}", one.sort(), one.sort(), one.sort())
        return z3.If(condition, function(dtype, one, other), unknown(one, other))

    return _binary(apply, call, lhs, rhs)


def _unknown(name: str, claims: Claims, arguments: Sequence[Tensor]) -> Tensor:
    """Apply an uninterpreted function to each element."""
    if not all(is_float(argument.dtype) for argument in arguments):
        raise NotEncodedError(f"operator {name} of integers")
    claims.unknown_functions.add(name)
    function = z3.Function(name, *[z3.RealSort()] * (len(arguments) + 1))
    arrays = np.broadcast_arrays(*(argument.terms for argument in arguments))
    return Tensor(arguments[0].dtype, mapped(function, *arrays))


_Reduction: TypeAlias = Callable[[str, list[Any]], Any]
"""Takes the element type and the terms that are reduced to one."""


def _moved(call: Call, arguments: Sequence[Value]) -> Value:
    """Return the result of an operator that only moves elements.

    Its kernel runs on the indices of the elements.
    """
    assert isinstance(call.op, Op), "the caller has looked it up"
    pool: list[Any] = []

    def indices(value: Value) -> Any:
        if isinstance(value, tuple):
            return tuple(map(indices, value))
        terms = as_tensor(value).terms
        start = len(pool)
        pool.extend(terms.ravel())
        numbers: Any = np.arange(start, len(pool))
        return numbers.reshape(terms.shape)

    def terms(result: Any, tp: Type) -> Value:
        if isinstance(tp, TupleType):
            return tuple(map(terms, result, tp.fields))
        dtype, _ = tensor_type(tp)
        return Tensor(dtype, elements[np.asarray(result)])

    positions = list(map(indices, arguments))
    elements = np.empty(len(pool), object)
    elements[:] = pool
    return terms(kernel_of(call.op, call.attrs)(*positions), call.checked_type)


def _reduced(function: "_Reduction", call: Call, data: Tensor) -> Tensor:
    attrs: Any = call.attrs
    axes = reduce_axes(data.terms.ndim, attrs.axis, attrs.exclude)
    dtype, shape = tensor_type(call.checked_type)
    kept = [axis for axis in range(data.terms.ndim) if axis not in axes]
    rows = data.terms.transpose([*kept, *axes]).reshape(prod(data.terms.shape[axis] for axis in kept), -1)
    if not rows.shape[1]:
        raise NotEncodedError("a reduction of no elements")
    terms = np.empty(len(rows), object)
    terms[:] = [function(data.dtype, list(row)) for row in rows]
    return Tensor(dtype, terms.reshape(shape))


def _number(function: Callable[[Any, Any], Any]) -> _Binary:
    """Return an operator of numbers."""

    def apply(dtype: str, lhs: Any, rhs: Any) -> Any:
        if dtype == "bool":
            raise NotEncodedError("arithmetic of bools")
        return function(lhs, rhs)

    return apply


def _quotient(dtype: str, lhs: Any, rhs: Any) -> Any:
    return z3.UDiv(lhs, rhs) if is_unsigned(dtype) else lhs / rhs


def _remainder(dtype: str, lhs: Any, rhs: Any) -> Any:
    return z3.URem(lhs, rhs) if is_unsigned(dtype) else z3.SRem(lhs, rhs)


def _floor_mod(dtype: str, lhs: Any, rhs: Any) -> Any:
    # The remainder of z3's `%` has the sign of the divisor.
    return z3.URem(lhs, rhs) if is_unsigned(dtype) else lhs % rhs


def _floor_divide(dtype: str, lhs: Any, rhs: Any) -> Any:
    if is_unsigned(dtype):
        return z3.UDiv(lhs, rhs)
    # Not by `lhs - lhs % rhs`, which overflows.
    quotient, remainder = lhs / rhs, z3.SRem(lhs, rhs)
    is_rounded_down = z3.And(remainder != 0, (lhs < 0) != (rhs < 0))
    return z3.If(is_rounded_down, quotient - 1, quotient)


def _left_shift(_dtype: str, lhs: Any, rhs: Any) -> Any:
    return lhs << rhs


def _right_shift(dtype: str, lhs: Any, rhs: Any) -> Any:
    return z3.LShR(lhs, rhs) if is_unsigned(dtype) else lhs >> rhs


def _bitwise(integers: Callable[[Any, Any], Any], bools: Callable[[Any, Any], Any]) -> _Binary:
    return lambda dtype, lhs, rhs: bools(lhs, rhs) if dtype == "bool" else integers(lhs, rhs)


def _logical(function: Callable[[Any, Any], Any]) -> _Binary:
    def apply(dtype: str, lhs: Any, rhs: Any) -> Any:
        if dtype != "bool":
            raise NotEncodedError("logical operators of numbers")
        return function(lhs, rhs)

    return apply


def _not(dtype: str, value: Any) -> Any:
    return z3.Not(value) if dtype == "bool" else ~value


def _abs(dtype: str, value: Any) -> Any:
    return value if is_unsigned(dtype) else z3.If(value < 0, -value, value)


def _relu(dtype: str, value: Any) -> Any:
    zero = literal(dtype, 0)
    return z3.If(less(dtype, value, zero), zero, value)


def _where(_claims: Claims, call: Call, arguments: Sequence[Tensor]) -> Tensor:
    dtype, _ = tensor_type(call.checked_type)

    def selected(condition: Any, lhs: Any, rhs: Any) -> Any:
        return z3.If(condition if z3.is_bool(condition) else condition != 0, lhs, rhs)

    return Tensor(dtype, mapped(selected, *np.broadcast_arrays(*(argument.terms for argument in arguments))))


def _convert(_claims: Claims, call: Call, arguments: Sequence[Tensor]) -> Tensor:
    dtype, _ = tensor_type(call.checked_type)
    return Tensor(dtype, mapped(partial(cast, dtype, arguments[0].dtype), arguments[0].terms))


def _fill(value: int) -> "_Other":
    def fill(_claims: Claims, call: Call, _arguments: Sequence[Tensor]) -> Tensor:
        dtype, shape = tensor_type(call.checked_type)
        terms = np.empty(shape, object)
        terms.fill(literal(dtype, value))
        return Tensor(dtype, terms)

    return fill


def _full(_claims: Claims, call: Call, arguments: Sequence[Tensor]) -> Tensor:
    dtype, shape = tensor_type(call.checked_type)
    value = arguments[-1]
    terms = np.empty(shape, object)
    terms.fill(cast(dtype, value.dtype, value.terms.item()))
    return Tensor(dtype, terms)


def _clip(claims: Claims, call: Call, arguments: Sequence[Tensor]) -> Tensor:
    attrs: Any = call.attrs
    data = arguments[0]
    low, high = literal(data.dtype, attrs.a_min), literal(data.dtype, attrs.a_max)

    def clipped(term: Any) -> Any:
        raised = z3.If(less(data.dtype, term, low), low, term)
        return z3.If(less(data.dtype, high, raised), high, raised)

    return Tensor(data.dtype, mapped(clipped, data.terms))


def _bias_add(claims: Claims, call: Call, arguments: Sequence[Tensor]) -> Tensor:
    attrs: Any = call.attrs
    data, bias = arguments
    axis = attrs.axis % data.terms.ndim
    shape = [-1 if index == axis else 1 for index in range(data.terms.ndim)]
    return Tensor(data.dtype, data.terms + bias.terms.reshape(shape))


def _dense(_claims: Claims, _call: Call, arguments: Sequence[Tensor]) -> Tensor:
    data, weight = arguments
    products: list[Any] = [
        reduce(add, row * column) for row in data.terms.reshape(-1, data.terms.shape[-1]) for column in weight.terms
    ]
    terms = np.empty(len(products), object)
    terms[:] = products
    return Tensor(data.dtype, terms.reshape([*data.terms.shape[:-1], len(weight.terms)]))


_Other: TypeAlias = Callable[[Claims, Call, Sequence[Tensor]], Tensor]

_MOVES: Final = frozenset(
    (
        *("reshape", "transpose", "squeeze", "expand_dims", "concatenate", "stack", "split", "strided_slice"),
        *("broadcast_to", "reverse", "tile", "repeat", "copy", "nn.batch_flatten", "layout_transform"),
        *("annotation.stop_fusion", "on_device"),
    )
)
"""Operators whose results have only elements of their arguments."""

_UNKNOWN: Final = frozenset(
    (
        *("exp", "log", "log2", "log10", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "power"),
        *("sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "atan2"),
        *("ceil", "floor", "round", "trunc"),
    )
)
"""Operators about which the solver knows nothing."""

_UNARY: Final[Mapping[str, _Unary]] = {
    "negative": lambda _dtype, value: -value,
    "abs": _abs,
    "nn.relu": _relu,
    "logical_not": _not,
    "bitwise_not": _not,
}

_BINARY: Final[Mapping[str, _Binary]] = {
    "add": _number(lambda lhs, rhs: lhs + rhs),
    "subtract": _number(lambda lhs, rhs: lhs - rhs),
    "multiply": _number(lambda lhs, rhs: lhs * rhs),
    "maximum": lambda dtype, lhs, rhs: z3.If(less(dtype, lhs, rhs), rhs, lhs),
    "minimum": lambda dtype, lhs, rhs: z3.If(less(dtype, rhs, lhs), rhs, lhs),
    "equal": lambda _dtype, lhs, rhs: lhs == rhs,
    "not_equal": lambda _dtype, lhs, rhs: lhs != rhs,
    "less": less,
    "less_equal": lambda dtype, lhs, rhs: z3.Not(less(dtype, rhs, lhs)),
    "greater": lambda dtype, lhs, rhs: less(dtype, rhs, lhs),
    "greater_equal": lambda dtype, lhs, rhs: z3.Not(less(dtype, lhs, rhs)),
    "logical_and": _logical(z3.And),
    "logical_or": _logical(z3.Or),
    "logical_xor": _logical(z3.Xor),
    "bitwise_and": _bitwise(lambda lhs, rhs: lhs & rhs, z3.And),
    "bitwise_or": _bitwise(lambda lhs, rhs: lhs | rhs, z3.Or),
    "bitwise_xor": _bitwise(lambda lhs, rhs: lhs ^ rhs, z3.Xor),
}

_PARTIAL: Final[Mapping[str, tuple[_Binary, bool]]] = {
    "divide": (_quotient, False),
    "trunc_divide": (_quotient, False),
    "floor_divide": (_floor_divide, False),
    "mod": (_remainder, False),
    "trunc_mod": (_remainder, False),
    "floor_mod": (_floor_mod, False),
    "left_shift": (_left_shift, True),
    "right_shift": (_right_shift, True),
}
"""Operators whose result for some operands is an unknown number, each with whether it is a shift."""

_REDUCTIONS: Final[Mapping[str, _Reduction]] = {
    "sum": lambda _dtype, terms: reduce(add, terms),
    "prod": lambda _dtype, terms: reduce(mul, terms),
    "max": lambda dtype, terms: reduce(partial(_BINARY["maximum"], dtype), terms),
    "min": lambda dtype, terms: reduce(partial(_BINARY["minimum"], dtype), terms),
    "all": lambda _dtype, terms: z3.And(*terms),
    "any": lambda _dtype, terms: z3.Or(*terms),
}

_OTHERS: Final[Mapping[str, _Other]] = {
    "cast": _convert,
    "zeros": _fill(0),
    "zeros_like": _fill(0),
    "ones": _fill(1),
    "ones_like": _fill(1),
    "full": _full,
    "full_like": _full,
    "clip": _clip,
    "where": _where,
    "nn.bias_add": _bias_add,
    "nn.dense": _dense,
}
