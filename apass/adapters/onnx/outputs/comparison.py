"""Differences between outputs: arrays, sequences, strings and sparse tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

import numpy as np
import onnx
from onnx.numpy_helper import to_array
from onnx.reference.op_run import SparseTensor

from apass.util.array_difference import array_difference

__all__ = ["Difference", "differences", "plain"]

SINGLE_BYTES = 4
"""Size of a float32 in bytes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two values of one output."""

    where: str
    """The output, with an index if it is a sequence: `"y"`, `"y[2]"`."""
    amount: float
    """The largest absolute difference: 0 if only signs of zeros differ, infinite if the kinds differ."""
    near: bool
    """Whether the difference is within tolerance."""
    text: str
    """A description of the difference."""


def differences(
    names: Sequence[str],
    left: Sequence[Any],
    right: Sequence[Any],
    rtol: float | None = None,
    atol: float = 1e-7,
) -> list[Difference]:
    """Return the differences of `right` from `left`, in the order of the outputs.

    Identical values have no difference, and NaN equals NaN. Integers and strings have no tolerance. If `rtol` is None,
    the relative tolerance depends on the type. It is relative to the largest finite magnitude of the tensor: a sum that
    is computed in another order is as inexact as its largest terms, even if the result is close to 0.
    """
    if len(left) != len(right):
        return [Difference("outputs", inf, False, f"there are {len(right)} outputs, expected {len(left)}")]
    found: list[Difference] = []
    for name, left_value, right_value in zip(names, left, right, strict=False):
        found += _compare(name, left_value, right_value, rtol, atol)
    return found


def plain(value: Any) -> Any:
    """Return a value in a form that can be compared and pickled.

    The form is an array, a list of such forms, a string or None.
    """
    if isinstance(value, onnx.TensorProto):
        return to_array(value)
    if isinstance(value, SparseTensor):
        sparse: Any = value
        return [np.asarray(sparse.values), np.asarray(sparse.indices), np.asarray(sparse.shape)]
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return np.asarray(value) if isinstance(value, np.generic | int | float | complex) else value


def _compare(where: str, left: Any, right: Any, rtol: float | None, atol: float) -> list[Difference]:
    if _all_are(list, left, right):
        if len(left) == len(right):
            return differences([f"{where}[{index}]" for index in range(len(left))], left, right, rtol, atol)
    elif _all_are(np.ndarray, left, right):
        if left.shape == right.shape and (left.dtype == right.dtype or _are_strings(left, right)):
            return _compare_arrays(where, left, right, rtol, atol)
    elif type(left) is type(right) and left == right:
        return []
    return [Difference(where, inf, False, f"output {where!r} is {_kind(right)}, expected {_kind(left)}")]


def _compare_arrays(where: str, left: Any, right: Any, rtol: float | None, atol: float) -> list[Difference]:
    if _are_strings(left, right):
        is_same = left.astype(object).tolist() == right.astype(object).tolist()
        return [] if is_same else [Difference(where, inf, False, f"output {where!r} has different strings")]
    found = array_difference(left, right, share=_rtol(left.dtype) if rtol is None else rtol, atol=atol)
    if found is None:
        return []
    return [Difference(where, found.amount, found.is_near, f"output {where!r} differs {found.text}")]


def _are_strings(*arrays: Any) -> bool:
    """Return whether the arrays hold strings, for which numpy has several types."""
    return all(array.dtype.kind in "OUST" for array in arrays)


def _all_are(kind: type[Any], *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _rtol(dtype: Any) -> float:
    """Return the rounding error to expect if a sum is computed in another order."""
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if size < SINGLE_BYTES:
        return 1e-2
    return 1e-5 if size == SINGLE_BYTES else 1e-9


def _kind(value: Any) -> str:
    if _all_are(np.ndarray, value):
        return f"an array {value.dtype}{list(value.shape)}"
    if _all_are(list, value):
        return f"a sequence of {len(value)}"
    return "None" if value is None else f"the {type(value).__name__} {value!r}"
