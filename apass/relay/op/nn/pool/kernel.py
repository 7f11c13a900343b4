"""Pooling of numpy arrays.

Maxima and sums are separable, so the spatial dimensions are pooled one after another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.ndarray import Array
from apass.relay.op.nn.conv.kernel import accumulator

__all__ = ["Slide", "average_windows", "averaged", "lowest", "max_windows", "padded", "summable"]


@dataclass(frozen=True, slots=True)
class Slide:
    """The windows along one dimension."""

    size: int
    """The number of elements of a window."""
    stride: int
    """The distance between windows."""
    dilation: int
    """The distance between the elements of a window."""
    sides: tuple[int, int]
    """The padding before and after the dimension."""
    count: int
    """The number of windows; the last one may extend beyond the padding."""

    @property
    def extent(self) -> int:
        """The length that all windows cover together."""
        return (self.count - 1) * self.stride + (self.size - 1) * self.dilation + 1

    def added(self, length: int) -> tuple[int, int]:
        """Return how many elements are added before and after a dimension."""
        low = self.sides[0]
        return low, max(0, self.extent - low - length)

    def positions(self, tap: int) -> slice:
        """Return the positions of element number `tap` of all windows."""
        start = tap * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)

    def covered(self, length: int, *, include_pad: bool) -> Array:
        """Return how many elements of each window count.

        Those in the dimension count, and those in its padding with `include_pad`.
        """
        low, high = self.sides
        first, last = (0, low + length + high) if include_pad else (low, low + length)
        starts = np.arange(self.count)[:, np.newaxis] * self.stride
        positions = starts + np.arange(self.size)[np.newaxis] * self.dilation
        inside = (positions >= first) & (positions < last)
        counts: Array = np.count_nonzero(inside, axis=1)
        return counts


def lowest(dtype: np.dtype[np.generic]) -> float:
    """Return the lowest number of an element type."""
    if dtype.kind == "b":
        return 0
    return int(np.iinfo(str(dtype)).min) if dtype.kind in "iu" else -np.inf


def summable(dtype: str) -> str:
    """Return the element type of sums, wide enough for a whole window."""
    return accumulator(dtype) if "float" in dtype else "int64"


def max_windows(data: Array, slides: Sequence[Slide]) -> Array:
    """Return the maximum of each window over the last dimensions, ignoring padding."""
    out = data
    for axis, slide in enumerate(slides, data.ndim - len(slides)):
        out = _slide(np.maximum, out, axis, slide, lowest(data.dtype))
    return out


def average_windows(data: Array, slides: Sequence[Slide], *, include_pad: bool) -> Array:
    """Return the mean of each window over the last dimensions.

    Padding is 0. It counts as elements only with `include_pad`.
    """
    lead = data.ndim - len(slides)
    out = data.astype(summable(str(data.dtype)), copy=False)
    count: Array = np.ones((), "int64")
    for axis, slide in enumerate(slides, lead):
        out = _slide(np.add, out, axis, slide, 0)
        count = np.multiply.outer(count, slide.covered(data.shape[axis], include_pad=include_pad))
    return averaged(out, np.maximum(count, 1), str(data.dtype))


def averaged(total: Array, count: Array, dtype: str) -> Array:
    """Return sums divided by counts; integers are truncated towards 0, as in C."""
    if total.dtype.kind == "f":
        mean: Array = np.divide(total, count.astype(total.dtype))
        return mean.astype(dtype, copy=False)
    whole: Array = np.sign(total) * np.floor_divide(np.abs(total), count)
    return whole.astype(dtype)


def _slide(fold: np.ufunc, data: Array, axis: int, slide: Slide, value: float) -> Array:
    whole = padded(data, axis, *slide.added(data.shape[axis]), value)
    lead = (slice(None),) * axis
    out = whole[(*lead, slide.positions(0))].copy()
    for tap in range(1, slide.size):
        fold(out, whole[(*lead, slide.positions(tap))], out=out)
    return out


def padded(data: Array, axis: int, low: int, high: int, value: float) -> Array:
    """Return the data with `low` elements before an axis and `high` after it."""
    if not low and not high:
        return data
    shape = list(data.shape)
    shape[axis] += low + high
    out = np.full(shape, value, data.dtype)
    out[(*(slice(None),) * axis, slice(low, low + data.shape[axis]))] = data
    return out
