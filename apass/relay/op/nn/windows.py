"""Windows over the spatial dimensions: sizes, padding and views."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Final, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim
from apass.relay.op.define.layout import Layout, parse_layout

__all__ = [
    "DATA_LAYOUTS",
    "both_sides",
    "check_windows",
    "ints",
    "pad_spatial",
    "padding_of",
    "sliding",
    "spans",
    "window_count",
]

DATA_LAYOUTS: Final[tuple[Layout, ...]] = tuple(map(parse_layout, ("NC", "NCW", "NCHW", "NCDHW")))
"""The layout of data in kernels, by the number of spatial dimensions."""

_ONE_FOR_EACH: Final = ("kernel_size", "pool_size", "strides", "dilation", "output_padding")
"""Attributes with one number for each spatial dimension."""


def ints(value: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Return a number for each spatial dimension; a single number is used for all.

    >>> ints(3, 2), ints([1, 2], 2)
    ((3, 3), (1, 2))
    """
    return tuple(map(index, value)) if isinstance(value, Iterable) else (index(value),) * rank


def padding_of(value: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Return the padding before each spatial dimension, then after each.

    `value` is one number for all sides, one for each dimension, or one for each side.

    Raises:
        ValueError: if `value` has another number of elements.

    >>> padding_of(1, 2), padding_of((1, 2), 2), padding_of((1, 2, 3, 4), 2)
    ((1, 1, 1, 1), (1, 2, 1, 2), (1, 2, 3, 4))
    """
    sides = ints(value, 1)
    if len(sides) not in {1, rank, 2 * rank}:
        counts = ", ".join(map(str, sorted({1, rank, 2 * rank})[:-1]))
        raise ValueError(f"padding must have {counts} or {2 * rank} numbers, got {len(sides)}: {sides}")
    return sides * (2 * rank // len(sides))


def check_windows(op: str, rank: int, attrs: Attrs) -> None:
    """Check that attributes of windows have a number for each of `rank` dimensions.

    Raises:
        TypeInferenceError: if an attribute has another number of elements.

    """
    for name in _ONE_FOR_EACH:
        value = getattr(attrs, name, None)
        if isinstance(value, Sequence) and len(cast("Sequence[object]", value)) != rank:
            raise TypeInferenceError(f"{op}: {name} must have {rank} numbers, got {value}")
    try:
        padding_of(attrs.get_int_tuple("padding"), rank)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {error}") from None


def both_sides(padding: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Return the padding before and after each spatial dimension, as pairs."""
    sides = padding_of(padding, rank)
    return list(zip(sides[:rank], sides[rank:], strict=True))


def spans(sizes: Sequence[Dim], dilation: Sequence[int]) -> tuple[Dim, ...]:
    """Return the extents of windows whose elements are `dilation` apart."""
    return tuple((size - 1) * gap + 1 for size, gap in zip(sizes, dilation, strict=True))


def window_count(op: str, length: Dim, span: Dim, stride: int, sides: tuple[int, int], *, ceil: bool = False) -> Dim:
    """Return how many windows fit into a padded dimension.

    With `ceil`, the last window may extend beyond the padding.

    Raises:
        TypeInferenceError: if no window fits, or the stride is not positive.

    """
    if stride < 1:
        raise TypeInferenceError(f"{op}: strides must be positive, got {stride}")
    count = (length + sum(sides) - span + (stride - 1 if ceil else 0)) // stride + 1
    if isinstance(count, int) and count < 1:
        raise TypeInferenceError(
            f"{op}: a window of extent {span} does not fit into a dimension of {length} with padding {sides}"
        )
    return count


def pad_spatial(data: Array, sides: Sequence[tuple[int, int]], value: float) -> Array:
    """Return the data with its last dimensions padded; a negative padding removes."""
    if not any(map(any, sides)):
        return data
    lead = data.ndim - len(sides)
    rows = list(zip(sides, data.shape[lead:], strict=True))
    cropped = data[_at(lead, [slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in rows])]
    padded = np.full((*data.shape[:lead], *(size + low + high for (low, high), size in rows)), value, data.dtype)
    inner = [slice(max(low, 0), size + low - max(-high, 0)) for (low, high), size in rows]
    padded[_at(lead, inner)] = cropped
    return padded


def _at(lead: int, slices: Sequence[slice]) -> tuple[slice, ...]:
    return (*(slice(None),) * lead, *slices)


def sliding(data: Array, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """Return a view of the windows over the last dimensions.

    Its axes are the leading dimensions, the elements of a window, and the windows.

    >>> sliding(np.arange(5), [2], [1], [3]).tolist()
    [[0, 1], [3, 4]]
    """
    lead = data.ndim - len(sizes)
    steps = data.strides[lead:]
    lengths = zip(data.shape[lead:], sizes, strides, dilation, strict=True)
    counts = [(length - (size - 1) * gap - 1) // stride + 1 for length, size, stride, gap in lengths]
    inner = [step * gap for step, gap in zip(steps, dilation, strict=True)]
    outer = [step * stride for step, stride in zip(steps, strides, strict=True)]
    shape = (*data.shape[:lead], *sizes, *counts)
    return as_strided(data, shape, (*data.strides[:lead], *inner, *outer), writeable=False)
