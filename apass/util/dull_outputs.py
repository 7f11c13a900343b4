"""Arrays that show little about the program that computed them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["changed_input", "dull_outputs"]


def dull_outputs(names: Sequence[str], outputs: Sequence[Any]) -> dict[str, str]:
    """Return the outputs that show little about a program, each with the reason.

    Their elements are all equal or NaN, or there are none. Another program gives such outputs easily.

    >>> dull_outputs(["a", "b", "c"], [np.full(3, 0.5), np.array([np.nan]), np.array([1.0, 2.0])])
    {'a': 'has the same value 0.5 in all elements', 'b': 'has the same value nan in all elements'}
    """
    return {name: reason for name, value in zip(names, outputs, strict=False) if (reason := _dullness(value))}


def changed_input(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return an input with changed floating-point numbers, which keep their type.

    >>> changed_input(np.array([0.5, -1.0], "float32"), abs)
    array([0.5, 1. ], dtype=float32)
    """
    # Lists have no dtype.
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return np.asarray(change(value)).astype(value.dtype) if kind == "f" else value


def _dullness(value: Any) -> str:
    # `isinstance` would narrow the types to those with unknown elements.
    if _is_of(list, value):
        items = [_dullness(item) for item in value]
        return items[0] if items and all(items) else "" if items else "has no elements"
    if not _is_of(np.ndarray, value) or value.dtype.kind in "OUST":
        return ""
    if not value.size:
        return "has no elements"
    wide = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64).reshape(-1)
    if not (np.isnan(wide).all() if np.isnan(wide).any() else (wide == wide[0]).all()):
        return ""
    first = value.reshape(-1)[0]
    # Adding 0 removes the sign of zero, which varies with that of inputs.
    shown = f"{float(first) + 0.0:g}" if value.dtype.kind == "f" else str(first)
    return f"has the same value {shown} in all elements"


def _is_of(kind: type[Any], value: Any) -> bool:
    return isinstance(value, kind)
