"""Random arguments for a function, and whether two results agree: how it is checked that a pass keeps the meaning."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np

from apass.relay.function import Function
from apass.relay.interpreter.evaluate import Value
from apass.relay.ir.ndarray import Array
from apass.relay.ty import TensorType, TupleType, Type

__all__ = ["Argument", "difference", "random_arguments"]

Argument: TypeAlias = "Array | tuple[Argument, ...]"
"""An array, or a tuple of arguments."""

UNKNOWN_SIZE: Final = 2
"""The size that is given to symbolic dimensions."""

TOLERANCES: Final = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-7}
"""How much two results may differ, relative to the greatest magnitude in the array, by element type."""


def random_arguments(func: Function, seed: int = 0) -> list[Argument]:
    """Return an argument for each parameter, the same ones for the same seed.

    Floats are drawn from a normal distribution, integers are 0 or 1, so that they can be indices; a symbolic dimension
    is 2.

    Raises:
        ValueError: if a parameter is neither a tensor nor a tuple of them, or has no type yet.

    """
    rng = np.random.default_rng(seed)
    return [_random_value(param.checked_type, rng) for param in func.params]


def _random_value(ty: Type, rng: np.random.Generator) -> Argument:
    if isinstance(ty, TupleType):
        return tuple(_random_value(one, rng) for one in ty.fields)
    if not isinstance(ty, TensorType):
        raise ValueError(f"no random value can be made for a parameter of type {ty}")
    shape = [dim if isinstance(dim, int) else UNKNOWN_SIZE for dim in ty.shape]
    dtype = np.dtype(ty.dtype)
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape), dtype)
    return np.asarray(rng.integers(0, 2, shape), dtype)


def difference(left: Value, right: Value) -> str:
    """Return how two results differ, in a few words; nothing if they agree: exactly, floats up to a tolerance.

    NaN agrees with NaN. Closures agree with nothing but themselves.
    """
    return next(_differences("the result", left, right), "")


def _differences(where: str, left: Value, right: Value) -> Iterator[str]:
    if isinstance(left, tuple) and isinstance(right, tuple):
        if len(left) != len(right):
            yield f"{where} has {len(right)} fields, not {len(left)}"
            return
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _differences(f"{where}.{place}", one, other)
    elif isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        yield from _array_differences(where, left, right)
    elif left is not right:
        yield f"{where} is {right!r}, not {left!r}"


def _array_differences(where: str, left: Array, right: Array) -> Iterator[str]:
    if (left.shape, left.dtype) != (right.shape, right.dtype):
        yield f"{where} is of {right.dtype}{list(right.shape)}, not {left.dtype}{list(left.shape)}"
    elif left.dtype.kind == "f":
        one, other = left.astype(np.float64), right.astype(np.float64)
        scale = float(np.max(np.abs(one), initial=0.0, where=np.isfinite(one)))
        tolerance = TOLERANCES.get(str(left.dtype), 0.0)
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance * max(scale, 1e-6), equal_nan=True):
            yield f"{where} differs by up to {np.nanmax(np.abs(one - other)):.3g} where magnitudes reach {scale:.3g}"
    elif not np.array_equal(left, right):
        yield f"{where} differs in {int(np.sum(left != right))} of {left.size} elements"
