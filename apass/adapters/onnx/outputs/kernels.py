"""Fast `Conv`, `MaxPool` and `AveragePool` for the reference evaluator.

The ones of onnx visit each element of a window in Python. They take nine tenths of the time of a convolutional network.
These compute the same values bit by bit: `MaxPool` only selects, and `Conv` multiplies the same matrices. All other
cases, such as dilated kernels or NaN, are left to the classes of onnx.
"""

from collections.abc import Iterator
from itertools import groupby, product
from math import prod
from typing import Any, Final

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op
from onnx.reference.ops.op_conv import Conv as ReferenceConv
from onnx.reference.ops.op_max_pool import MaxPool as ReferenceMaxPool

__all__ = ["KERNELS", "AveragePool", "Conv", "MaxPool"]


class Conv(ReferenceConv):
    """A convolution without dilation and automatic padding."""

    op_domain = ""

    def _run(self, X: Any, W: Any, B: Any = None, **attributes: Any) -> tuple[Any, ...]:  # noqa: N803  names of ONNX
        shape = _plain_window(X, W.shape[2:], attributes) if W.ndim == X.ndim else None
        group = attributes["group"] or 1
        is_plain = shape is not None and X.size and X.shape[1] == W.shape[1] * group
        if not is_plain or shape is None or W.shape[0] % group:
            result: tuple[Any, ...] = super()._run(X, W, B, **attributes)
            return result
        strides = attributes["strides"] or [1] * len(shape)
        padded = np.pad(X, [(0, 0), (0, 0), *_pads(attributes, len(shape))])
        axes = tuple(range(2, X.ndim))
        windows = np.lib.stride_tricks.sliding_window_view(padded, W.shape[2:], axis=axes)
        windows = windows[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]
        # One column for each window. onnx multiplies the same matrix, so that BLAS rounds alike.
        columns = np.ascontiguousarray(windows.transpose(1, *range(X.ndim, windows.ndim), 0, *axes))
        sums = W.reshape(group, W.shape[0] // group, -1) @ columns.reshape(group, prod(W.shape[1:]), -1)
        sums = sums.reshape(W.shape[0], X.shape[0], *shape).swapaxes(0, 1).reshape(X.shape[0], W.shape[0], *shape)
        if B is not None:
            sums = sums + (B if B.size == 1 else B.reshape(-1, *[1] * len(shape)))
        return (sums.astype(X.dtype, copy=False),)


class MaxPool(ReferenceMaxPool):
    """The maximum of windows of floating-point numbers without NaN; only the values, not their indices."""

    op_domain = ""

    def _run(self, x: Any, **attributes: Any) -> tuple[Any, ...]:
        kernel, pads, strides = attributes["kernel_shape"], attributes["pads"], attributes["strides"]
        shape = _pooled_shape(x, kernel, attributes)
        # With strides of 1, onnx 1.23 takes the padding for (begin, end) pairs, and pads only two axes.
        is_odd = set(strides or [1]) == {1} and (len(kernel) != 2 or len(set(pads or [0])) > 1)
        if shape is None or is_odd or len(self.output) != 1:
            result: tuple[Any, ...] = super()._run(x, **attributes)
            return result
        padded = np.pad(x, [(0, 0), (0, 0), *_pads(attributes, len(shape))], constant_values=-np.inf)
        largest: Any = None
        for offset in product(*map(range, kernel)):
            part = padded[(slice(None), slice(None), *_steps(offset, shape, strides or [1] * len(shape)))]
            if largest is None:
                largest = part.copy()
            else:
                # As in onnx, the first of equal values remains: 0 and -0 are equal.
                np.copyto(largest, part, where=part > largest)
        return (largest,)


class AveragePool(OpRun):
    """The average of windows of floating-point numbers without NaN."""

    op_domain = ""

    def _run(self, x: Any, **attributes: Any) -> tuple[Any, ...]:
        kernel, is_padding_counted = attributes["kernel_shape"], attributes["count_include_pad"] == 1
        shape = _pooled_shape(x, kernel, attributes)
        if shape is None:
            reference: Any = load_op("", "AveragePool", self.run_params["opsets"][""])(self.onnx_node, self.run_params)
            result: tuple[Any, ...] = reference.run(x)
            return result
        count, strides = len(shape), attributes["strides"] or [1] * len(shape)
        pads = _pads(attributes, count)
        padded = np.pad(x, [(0, 0), (0, 0), *pads])
        windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=tuple(range(2, x.ndim)))
        windows = windows[(slice(None), slice(None), *(slice(None, None, stride) for stride in strides))]
        averages = np.zeros((*x.shape[:2], *shape), x.dtype)
        every = slice(None)
        extents = [
            [(every, every)] if is_padding_counted else _extents(x.shape[2 + axis], shape[axis], stride, size, begin)
            for axis, (stride, size, (begin, _)) in enumerate(zip(strides, kernel, pads, strict=True))
        ]
        for parts in product(*extents):
            outputs, elements = zip(*parts, strict=True)
            values = np.ascontiguousarray(windows[(every, every, *outputs, *elements)])
            # numpy adds each row of the matrix in the order in which it adds a vector.
            averages[(every, every, *outputs)] = values.reshape(*values.shape[: x.ndim], -1).mean(axis=-1)
        return (averages,)


def _plain_window(x: Any, kernel: Any, attributes: Any) -> tuple[int, ...] | None:
    """Return the shape of the output without batch and channels; None if the window is not plain."""
    count = x.ndim - 2
    pads, strides = attributes["pads"] or [0] * (2 * count), attributes["strides"] or [1] * count
    if (
        count < 1
        or not len(kernel) == len(strides) == len(pads) // 2 == count
        or attributes["auto_pad"] not in (None, "", "NOTSET")
        or any(dilation != 1 for dilation in attributes["dilations"] or ())
        or tuple(attributes["kernel_shape"] or kernel) != tuple(kernel)
        or min(*pads, *(stride - 1 for stride in strides)) < 0
    ):
        return None
    sizes = [size + pads[axis] + pads[axis + count] - kernel[axis] for axis, size in enumerate(x.shape[2:])]
    if min(sizes) < 0:
        return None
    return tuple(size // stride + 1 for size, stride in zip(sizes, strides, strict=True))


def _pooled_shape(x: Any, kernel: Any, attributes: Any) -> tuple[int, ...] | None:
    """Return the shape of the output without batch and channels; None if the case is left to onnx.

    Each window has an element that is not padding.
    """
    is_plain = x.dtype.kind == "f" and x.size and not attributes["ceil_mode"] and not np.isnan(x).any()
    if not is_plain or max(attributes["pads"] or [0]) >= min(kernel):
        return None
    return _plain_window(x, kernel, attributes)


def _pads(attributes: Any, count: int) -> list[tuple[int, int]]:
    pads = attributes["pads"] or [0] * (2 * count)
    return list(zip(pads[:count], pads[count:], strict=True))


def _steps(offset: tuple[int, ...], shape: tuple[int, ...], strides: Any) -> Iterator[slice]:
    """Iterate over the slices that select one element of each window."""
    for start, size, stride in zip(offset, shape, strides, strict=True):
        yield slice(start, start + size * stride, stride)


def _extents(size: int, count: int, stride: int, kernel: int, pad: int) -> list[tuple[slice, slice]]:
    """Return ranges of windows along one axis, each with the range of their elements that are not padding."""
    starts = (index * stride - pad for index in range(count))
    extents = enumerate((max(0, -start), min(kernel, size - start)) for start in starts)
    ranges: list[tuple[slice, slice]] = []
    for extent, group in groupby(extents, key=lambda item: item[1]):
        indices = [index for index, _ in group]
        ranges.append((slice(indices[0], indices[-1] + 1), slice(*extent)))
    return ranges


KERNELS: Final[list[type[OpRun]]] = [AveragePool, Conv, MaxPool]
"""The classes for `ReferenceEvaluator(new_ops=...)`."""
