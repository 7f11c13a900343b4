"""Pooling on numpy arrays: one spatial dimension after another, as maxima and sums allow."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.ndarray import Array
from apass.relay.op.nn.conv.kernel import accumulator

__all__ = ["Slide", "average_windows", "averaged", "lowest", "max_windows", "summable"]


@dataclass(frozen=True, slots=True)
class Slide:
    """How windows slide over one dimension."""

    size: int
    """How many elements a window has."""
    stride: int
    """The distance between windows."""
    dilation: int
    """The distance between the elements of a window."""
    sides: tuple[int, int]
    """The padding before and behind."""
    count: int
    """How many windows there are; the last may stick out of the padding."""

    @property
    def reach(self) -> int:
        """The length that the windows cover together."""
        return (self.count - 1) * self.stride + (self.size - 1) * self.dilation + 1

    def places(self, tap: int) -> slice:
        """Return where the windows have their element number `tap`."""
        start = tap * self.dilation
        return slice(start, start + (self.count - 1) * self.stride + 1, self.stride)

    def covered(self, length: int, *, include_pad: bool) -> Array:
        """Return how many elements of each window lie in the dimension, or in its padding if that is to count."""
        low, high = self.sides
        first, last = (0, low + length + high) if include_pad else (low, low + length)
        starts = np.arange(self.count)[:, np.newaxis] * self.stride
        places = starts + np.arange(self.size)[np.newaxis] * self.dilation
        inside = (places >= first) & (places < last)
        counts: Array = np.count_nonzero(inside, axis=1)
        return counts


def lowest(dtype: np.dtype[np.generic]) -> float:
    """Return the number that no number of the element type is below."""
    if dtype.kind == "b":
        return 0
    return int(np.iinfo(str(dtype)).min) if dtype.kind in "iu" else -np.inf


def summable(dtype: str) -> str:
    """Return the element type to sum in: wide enough for the whole of a window."""
    return accumulator(dtype) if "float" in dtype else "int64"


def max_windows(data: Array, slides: Sequence[Slide]) -> Array:
    """Return the largest element of each window over the last dimensions; padding is below all."""
    out = data
    for axis, slide in enumerate(slides, data.ndim - len(slides)):
        out = _slide(np.maximum, out, axis, slide, lowest(data.dtype))
    return out


def average_windows(data: Array, slides: Sequence[Slide], *, include_pad: bool) -> Array:
    """Return the mean of each window over the last dimensions; padding is 0 and counts only if so wanted."""
    lead = data.ndim - len(slides)
    out = data.astype(summable(str(data.dtype)), copy=False)
    count: Array = np.ones((), "int64")
    for axis, slide in enumerate(slides, lead):
        out = _slide(np.add, out, axis, slide, 0)
        count = np.multiply.outer(count, slide.covered(data.shape[axis], include_pad=include_pad))
    return averaged(out, np.maximum(count, 1), str(data.dtype))


def averaged(total: Array, count: Array, dtype: str) -> Array:
    """Return sums divided by counts, whole numbers towards 0 as C does."""
    if total.dtype.kind == "f":
        mean: Array = np.divide(total, count.astype(total.dtype))
        return mean.astype(dtype, copy=False)
    whole: Array = np.sign(total) * np.floor_divide(np.abs(total), count)
    return whole.astype(dtype)


def _slide(fold: np.ufunc, data: Array, axis: int, slide: Slide, value: float) -> Array:
    low = slide.sides[0]
    whole = _padded(data, axis, low, max(0, slide.reach - low - data.shape[axis]), value)
    lead = (slice(None),) * axis
    out = whole[(*lead, slide.places(0))].copy()
    for tap in range(1, slide.size):
        fold(out, whole[(*lead, slide.places(tap))], out=out)
    return out


def _padded(data: Array, axis: int, low: int, high: int, value: float) -> Array:
    if not low and not high:
        return data
    shape = list(data.shape)
    shape[axis] += low + high
    padded = np.full(shape, value, data.dtype)
    padded[(*(slice(None),) * axis, slice(low, low + data.shape[axis]))] = data
    return padded
