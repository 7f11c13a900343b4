"""Windows that slide over the spatial dimensions: their sizes, their padding, their views. Convolution and pooling."""

from collections.abc import Iterable, Sequence
from operator import index
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.dims import plus, product
from apass.relay.op.define.layout import Layout, parse_layout
from apass.relay.ty import Any, Dim

__all__ = [
    "DATA_LAYOUTS",
    "both_sides",
    "ints",
    "pad_spatial",
    "padding_of",
    "sliding",
    "spans",
    "window_count",
]

DATA_LAYOUTS: Final[tuple[Layout, ...]] = tuple(map(parse_layout, ("NC", "NCW", "NCHW", "NCDHW")))
"""The layout that kernels compute in, by the number of spatial dimensions."""


def ints(given: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Return a size for each spatial dimension: a single number stands for all.

    >>> ints(3, 2), ints([1, 2], 2)
    ((3, 3), (1, 2))
    """
    return tuple(map(index, given)) if isinstance(given, Iterable) else (index(given),) * rank


def padding_of(given: int | Iterable[int], rank: int) -> tuple[int, ...]:
    """Return the padding before each spatial dimension, then that behind each.

    One number stands for all sides, one for each dimension for both of its sides.

    Raises:
        ValueError: if there is any other number of them.

    >>> padding_of(1, 2), padding_of((1, 2), 2), padding_of((1, 2, 3, 4), 2)
    ((1, 1, 1, 1), (1, 2, 1, 2), (1, 2, 3, 4))
    """
    sides = ints(given, 1)
    if len(sides) not in {1, rank, 2 * rank}:
        wanted = ", ".join(map(str, sorted({1, rank, 2 * rank})[:-1]))
        raise ValueError(f"padding must have {wanted} or {2 * rank} numbers, not {len(sides)}: {sides}")
    return sides * (2 * rank // len(sides))


def both_sides(padding: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Return what is padded before and behind each spatial dimension."""
    sides = padding_of(padding, rank)
    return list(zip(sides[:rank], sides[rank:], strict=True))


def spans(sizes: Sequence[Dim], dilation: Sequence[int]) -> tuple[Dim, ...]:
    """Return how far windows of the sizes reach when their elements are `dilation` apart."""
    return tuple(plus(product((plus(size, -1), gap)), 1) for size, gap in zip(sizes, dilation, strict=True))


def window_count(op: str, length: Dim, span: Dim, stride: int, sides: tuple[int, int], *, ceil: bool = False) -> Dim:
    """Return how many windows fit into a padded dimension; with `ceil` the last one may stick out.

    Raises:
        TypeInferenceError: if not even one fits, or the stride is not positive.

    """
    if stride < 1:
        raise TypeInferenceError(f"{op}: a stride must be positive, not {stride}")
    if not isinstance(length, int) or not isinstance(span, int):
        return Any()
    count = (length + sum(sides) - span + (stride - 1 if ceil else 0)) // stride + 1
    if count < 1:
        raise TypeInferenceError(
            f"{op}: a window that spans {span} does not fit into a dimension of {length} padded by {sides}"
        )
    return count


def pad_spatial(data: Array, sides: Sequence[tuple[int, int]], value: float) -> Array:
    """Return the data with its last dimensions padded with a value; a negative padding cuts off."""
    if not any(map(any, sides)):
        return data
    lead = data.ndim - len(sides)
    rows = list(zip(sides, data.shape[lead:], strict=True))
    kept = data[_at(lead, [slice(max(-low, 0), size - max(-high, 0)) for (low, high), size in rows])]
    padded = np.full((*data.shape[:lead], *(size + low + high for (low, high), size in rows)), value, data.dtype)
    inner = [slice(max(low, 0), size + low - max(-high, 0)) for (low, high), size in rows]
    padded[_at(lead, inner)] = kept
    return padded


def _at(lead: int, places: Sequence[slice]) -> tuple[slice, ...]:
    return (*(slice(None),) * lead, *places)


def sliding(data: Array, sizes: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """Return a view of the windows over the last dimensions: leading dimensions, places in a window, windows.

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
