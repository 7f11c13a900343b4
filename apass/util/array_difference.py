"""How two arrays of outputs differ."""

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

__all__ = ["ArrayDifference", "array_difference"]


@dataclass(frozen=True, slots=True)
class ArrayDifference:
    """A difference between two arrays of the same shape and type."""

    amount: float
    """The largest absolute difference.

    It is 0 if only signs of zeros or the contents of NaN differ, and infinite if a number became NaN or infinite.
    """
    is_near: bool
    """Whether each element is within tolerance."""
    text: str
    """A description, such as `by up to 0.5 in 1 of 2 elements, where magnitudes reach 2.5`."""


def array_difference(
    left: Any, right: Any, *, rtol: float = 0.0, share: float = 0.0, atol: float = 0.0
) -> ArrayDifference | None:
    """Return how two arrays differ; None if their bytes are equal.

    NaN equals NaN. Numbers that are not floating-point have no tolerance. Of the others, an element is near if the
    difference is at most `rtol` of it, plus `share` of the largest finite magnitude in the arrays, plus `atol`: a sum
    that is computed in another order is as inexact as its largest terms, even if the result is close to 0.

    Parameters:
        left: an array of numbers, of any type of numpy or ml_dtypes.
        right: an array of the same shape and type.
        rtol: the tolerance relative to the element of `left`.
        share: the tolerance relative to the largest magnitude.
        atol: the absolute tolerance.

    >>> found = array_difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]), share=0.1)
    >>> found.text, found.is_near
    ('by up to 0.5 in 1 of 2 elements, where magnitudes reach 2.5', False)
    >>> array_difference(np.array([2**53]), np.array([2**53 + 1])).text
    'by up to 1 in 1 of 1 elements, where magnitudes reach 9.01e+15'
    """
    if left.tobytes() == right.tobytes():
        return None
    # Subtract in a wide type, because the difference of two narrow numbers may overflow.
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    first, second = left.astype(wide), right.astype(wide)
    with np.errstate(all="ignore"):
        magnitudes = np.abs(np.stack([first, second]))
        scale = float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))
        # The integers of ml_dtypes (int4, uint2, ...) have the kind "V".
        if left.dtype.kind in "biu" or left.dtype.name.startswith(("int", "uint")):
            near = same = np.asarray(left == right)
            gaps = _integer_gaps(left, right)
        else:
            same = (first == second) | (np.isnan(first) & np.isnan(second))
            gaps = np.where(same, 0.0, np.nan_to_num(np.abs(first - second), nan=inf, posinf=inf))
            # Infinity is near to itself only.
            near = same | (np.isfinite(gaps) & (gaps <= rtol * magnitudes[0] + share * scale + atol))
    amount = float(gaps.max(initial=0.0))
    count = f"{np.count_nonzero(~same)} of {same.size} elements"
    if missing := np.count_nonzero(np.isnan(first) != np.isnan(second)):
        count += f" (NaN in {missing} before or after only)"
    text = f"by up to {amount:.3g} in {count}, where magnitudes reach {scale:.3g}"
    return ArrayDifference(amount, bool(near.all()), text)


def _integer_gaps(left: Any, right: Any) -> Any:
    """Return the distances of integers.

    A float64 does not have all integers above 2**53.
    """
    # Both casts keep the remainder modulo 2**64, which is the distance of the greater number from the other one.
    low, high = (value.astype(np.int64).astype(np.uint64) for value in (left, right))
    return np.asarray(np.where(left > right, low - high, high - low), np.float64)
