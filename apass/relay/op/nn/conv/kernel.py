"""Convolution and transposed convolution of numpy arrays, as matrix products."""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Final

import numpy as np

from apass.relay.ir.ndarray import Array
from apass.relay.op.nn.windows import pad_spatial, sliding

__all__ = ["accumulator", "convolve", "convolve_transposed"]

_BLOCK_BYTES: Final = 1 << 26
"""Approximate size in bytes of the columns that are computed at a time.

Larger blocks need more memory. Smaller blocks make the matrix product slower.
"""


def accumulator(dtype: str) -> str:
    """Return the element type of sums: float32 for half precision, else `dtype`.

    numpy multiplies half-precision matrices slowly, or not at all.
    """
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def convolve(
    data: Array,
    weight: Array,
    strides: Sequence[int],
    sides: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """Return the convolution of NC... data with OI... weights of one element type."""
    padded = pad_spatial(data, sides, 0)
    windows = sliding(padded, weight.shape[2:], strides, dilation)
    if weight.shape[1] == 1 and groups > 1:
        return _depthwise(windows, weight, groups)
    return _columns(windows, weight, groups)


def _depthwise(windows: Array, weight: Array, groups: int) -> Array:
    # With one channel in a group, a matrix product has no channels to sum over: add shifted images instead.
    rank = weight.ndim - 2
    batch, counts = windows.shape[0], windows.shape[2 + rank :]
    taps = weight.reshape(1, groups, -1, *weight.shape[2:], *(1 for _ in counts))
    images = windows[:, :, np.newaxis]
    out: Array = np.zeros((batch, groups, taps.shape[2], *counts), weight.dtype)
    term = np.empty_like(out)
    for tap in product(*map(range, weight.shape[2:])):
        index = (slice(None),) * 3 + tap
        np.multiply(images[index], taps[index], out=term)
        np.add(out, term, out=out)
    return out.reshape(batch, weight.shape[0], *counts)


def _columns(windows: Array, weight: Array, groups: int) -> Array:
    rank = weight.ndim - 2
    batch, counts = windows.shape[0], windows.shape[2 + rank :]
    filters, taps = weight.shape[0], prod(weight.shape[1:])
    matrix = weight.reshape(groups, filters // groups, taps)
    out = np.empty((batch, filters, *counts), weight.dtype)
    rows = max(1, _BLOCK_BYTES // max(1, groups * taps * prod(counts[1:]) * weight.itemsize))
    for sample, start in product(range(batch), range(0, counts[0], rows)):
        part = windows[sample][(slice(None),) * (1 + rank) + (slice(start, start + rows),)]
        columns = part.reshape(groups, taps, -1)
        block: Array = np.matmul(matrix, columns)
        out[sample, :, start : start + rows] = block.reshape(filters, *part.shape[1 + rank :])
    return out


def convolve_transposed(
    data: Array,
    weight: Array,
    strides: Sequence[int],
    sides: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    extra: Sequence[int],
) -> Array:
    """Return the transposed convolution of NC... data with IO... weights.

    Each element of the data adds its multiple of the weights to the result. `sides` are removed from the result, and
    `extra` elements are added at the end of each spatial dimension.
    """
    batch, channels, *lengths = data.shape
    filters, window = weight.shape[1], weight.shape[2:]
    matrix = weight.reshape(groups, channels // groups, -1).transpose(0, 2, 1)
    spread: Array = np.matmul(matrix, data.reshape(batch, groups, channels // groups, -1))
    terms = spread.reshape(batch, groups * filters, *window, *lengths)
    sizes = [
        (length - 1) * stride + (size - 1) * gap + 1 + added
        for length, stride, size, gap, added in zip(lengths, strides, window, dilation, extra, strict=True)
    ]
    out: Array = np.zeros((batch, groups * filters, *sizes), weight.dtype)
    for tap in product(*map(range, window)):
        axes = zip(tap, dilation, lengths, strides, strict=True)
        slices = tuple(
            slice(position * gap, position * gap + (length - 1) * stride + 1, stride)
            for position, gap, length, stride in axes
        )
        target = out[(slice(None),) * 2 + slices]
        np.add(target, terms[(slice(None),) * 2 + tap], out=target)
    return pad_spatial(out, [(-low, -high) for low, high in sides], 0)
