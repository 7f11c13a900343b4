"""Random arguments and comparison of results, to check passes for correctness."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np

from apass.relay.interpreter.evaluate import Value
from apass.relay.ir.function import Function
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, TupleType, Type
from apass.util.array_difference import array_difference
from apass.util.dull_outputs import changed_input

__all__ = ["Argument", "arrays_of", "changed_argument", "difference", "random_arguments"]

Argument: TypeAlias = "Array | tuple[Argument, ...]"
"""An array, or a tuple of arguments."""

UNKNOWN_SIZE: Final = 2
"""The size of symbolic dimensions."""

TOLERANCES: Final = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-7}
"""Tolerances by element type, relative to the greatest magnitude in the array."""


def random_arguments(func: Function, seed: int = 0) -> list[Argument]:
    """Return an argument for each parameter, deterministic for a seed.

    Floats are drawn from a normal distribution. Integers are 0 or 1, so that they can be indices. A symbolic dimension
    has size 2.

    Raises:
        ValueError: if a parameter is neither a tensor nor a tuple of tensors, or has no type.

    """
    rng = np.random.default_rng(seed)
    return [_random_value(param.checked_type, rng) for param in func.params]


def _random_value(ty: Type, rng: np.random.Generator) -> Argument:
    if isinstance(ty, TupleType):
        return tuple(_random_value(field, rng) for field in ty.fields)
    if not isinstance(ty, TensorType):
        raise ValueError(f"a parameter must be a tensor or a tuple of tensors, got type {ty}")
    shape = [dim if isinstance(dim, int) else UNKNOWN_SIZE for dim in ty.shape]
    dtype = np.dtype(ty.dtype)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape), dtype)
    return np.asarray(rng.integers(0, 2, shape), dtype)


def changed_argument(argument: Argument, change: Callable[[Array], Array]) -> Argument:
    """Return an argument with changed floating-point numbers, which keep their type."""
    if isinstance(argument, tuple):
        return tuple(changed_argument(field, change) for field in argument)
    changed: Array = changed_input(argument, change)
    return changed


def arrays_of(value: Value, name: str = "the result") -> Iterator[tuple[str, Array]]:
    """Iterate over the arrays of a result, each with its name in messages."""
    if isinstance(value, tuple):
        for index, field in enumerate(value):
            yield from arrays_of(field, f"{name}.{index}")
    elif isinstance(value, np.ndarray):
        yield name, value


def difference(left: Value, right: Value) -> str:
    """Return a short description of how two results differ, or `""` if they agree.

    Floats agree up to a tolerance, other values exactly. NaN agrees with NaN. A closure agrees only with itself.
    """
    return next(_differences("the result", left, right), "")


def _differences(name: str, left: Value, right: Value) -> Iterator[str]:
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            yield f"{name} has {len(right)} fields, not {len(left)}"
            return
        for index, (left_field, right_field) in enumerate(zip(left, right, strict=True)):
            yield from _differences(f"{name}.{index}", left_field, right_field)
    elif isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        yield from _array_differences(name, left, right)
    elif left is not right:
        yield f"{name} is {right!r}, not {left!r}"


def _array_differences(name: str, left: Array, right: Array) -> Iterator[str]:
    if (left.shape, left.dtype) != (right.shape, right.dtype):
        yield f"{name} is {right.dtype}{list(right.shape)}, not {left.dtype}{list(left.shape)}"
    else:
        tolerance = TOLERANCES.get(str(left.dtype), 0.0)
        found = array_difference(left, right, rtol=tolerance, share=tolerance, atol=tolerance * 1e-6)
        if found is not None and not found.is_near:
            yield f"{name} differs {found.text}"
