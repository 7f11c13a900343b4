"""Fast `Conv`, `MaxPool` and `AveragePool` for the reference evaluator.

The ones of onnx visit each element of a window in Python. They take nine tenths of the time of a convolutional network.
These compute the same values bit by bit, but for the sign of a zero in `MaxPool`. All other cases, such as dilated
kernels or NaN, are left to the classes of onnx.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx.reference.op_run import OpRun
from onnx.reference.ops import load_op

__all__ = ["KERNELS", "AveragePool", "Conv", "MaxPool"]

Array = Any
Attributes = Mapping[str, Any]

ALL: Final = slice(None)


class _Fast(OpRun):
    """An operator with a fast function for plain cases."""

    op_domain = ""

    def _run(self, *operands: Array, **attributes: Any) -> tuple[Array, ...]:
        result = FUNCTIONS[self.onnx_node.op_type](operands, attributes) if len(self.output) == 1 else None
        if result is not None:
            return (result,)
        version = self.run_params["opsets"][self.onnx_node.domain]
        reference: Any = load_op("", self.onnx_node.op_type, version)(self.onnx_node, self.run_params)
        known = {name: attributes[name] for name in reference.attributes_names_}
        results: tuple[Array, ...] = reference._run(*operands, **known)  # `run` would wrap errors twice
        return results


class Conv(_Fast):
    """A convolution."""


class MaxPool(_Fast):
    """The maximum of each window."""


class AveragePool(_Fast):
    """The average of each window."""


def _convolve(operands: Sequence[Array], attributes: Attributes) -> Array | None:
    x, weight = operands[:2]
    bias = operands[2] if len(operands) > 2 else None
    group = attributes["group"] or 1
    if weight.ndim != x.ndim or x.shape[1] != weight.shape[1] * group or weight.shape[0] % group:
        return None
    windows = _windows(x, weight.shape[2:], attributes)
    if windows is None:
        return None
    axes = range(2, x.ndim)
    shape = windows.shape[2 : x.ndim]
    # One column for each window. onnx multiplies the same matrix, so that BLAS rounds alike.
    columns = np.ascontiguousarray(windows.transpose(1, *range(x.ndim, windows.ndim), 0, *axes))
    sums = weight.reshape(group, weight.shape[0] // group, -1) @ columns.reshape(group, prod(weight.shape[1:]), -1)
    sums = np.ascontiguousarray(sums.reshape(weight.shape[0], x.shape[0], *shape).swapaxes(0, 1))
    if bias is not None:
        sums = sums + (bias if bias.size == 1 else bias.reshape(-1, *[1] * len(shape)))
    return sums.astype(x.dtype, copy=False)


def _maximum(operands: Sequence[Array], attributes: Attributes) -> Array | None:
    (x,) = operands
    kernel, pads = attributes["kernel_shape"], attributes["pads"] or [0]
    # With strides of 1, onnx 1.23 takes the padding for (begin, end) pairs, and pads only two axes.
    is_dense = set(attributes["strides"] or [1]) == {1}
    if not _are_numbers(x, attributes) or (is_dense and (len(kernel) != 2 or len(set(pads)) > 1)):
        return None
    windows = _windows(x, kernel, attributes, -np.inf)
    if windows is None:
        return None
    first, *others = (windows[(..., *offset)] for offset in product(*map(range, kernel)))
    largest = first.copy()
    for values in others:
        # As in onnx, the first of equal values remains: 0 and -0 are equal.
        np.copyto(largest, values, where=values > largest)
    return largest


def _average(operands: Sequence[Array], attributes: Attributes) -> Array | None:
    (x,) = operands
    kernel = attributes["kernel_shape"]
    windows = _windows(x, kernel, attributes) if _are_numbers(x, attributes) else None
    if windows is None:
        return None
    shape = windows.shape[2 : x.ndim]
    averages = np.zeros(windows.shape[: x.ndim], x.dtype)
    extents = [[(ALL, ALL)]] * len(kernel)
    if attributes["count_include_pad"] != 1:
        strides, pads = attributes["strides"] or [1] * len(kernel), attributes["pads"] or [0] * len(kernel)
        # The pads of the beginnings come first; those of the ends are not needed.
        sizes = zip(x.shape[2:], shape, strides, kernel, pads, strict=False)
        extents = [_extents(*axis) for axis in sizes]
    for parts in product(*extents):
        outputs, elements = zip(*parts, strict=True)
        values = np.ascontiguousarray(windows[(ALL, ALL, *outputs, *elements)])
        # numpy adds each row of a matrix in the order in which it adds a vector.
        averages[(ALL, ALL, *outputs)] = values.reshape(*values.shape[: x.ndim], -1).mean(axis=-1)
    return averages


def _windows(x: Array, kernel: Sequence[int], attributes: Attributes, padding: float = 0) -> Array | None:
    """Return a view of all windows: the axes of the output, then those of the kernel.

    If windows are dilated, padded automatically, or larger than `x`, return None.
    """
    count = x.ndim - 2
    pads, strides = attributes["pads"] or [0] * (2 * count), attributes["strides"] or [1] * count
    if (
        not count == len(kernel) == len(strides) == len(pads) // 2
        or not x.size
        or attributes["auto_pad"] not in (None, "", "NOTSET")
        or any(dilation != 1 for dilation in attributes["dilations"] or ())
        or tuple(attributes["kernel_shape"] or kernel) != tuple(kernel)
        or min(*pads, *(stride - 1 for stride in strides)) < 0
        or any(size + pads[i] + pads[i + count] < kernel[i] for i, size in enumerate(x.shape[2:]))
    ):
        return None
    widths: Any = [(0, 0), (0, 0), *zip(pads[:count], pads[count:], strict=True)]
    padded: Array = np.pad(x, widths, constant_values=padding) if any(pads) else x
    windows: Array = sliding_window_view(padded, tuple(kernel), axis=tuple(range(2, x.ndim)))
    return windows[(ALL, ALL, *(slice(None, None, stride) for stride in strides))]


def _are_numbers(x: Array, attributes: Attributes) -> bool:
    """Return whether all elements are floats, and no window is only padding."""
    is_padded_less = max(attributes["pads"] or [0]) < min(attributes["kernel_shape"])
    return is_padded_less and not attributes["ceil_mode"] and x.dtype.kind == "f" and not np.isnan(x).any()


def _extents(size: int, count: int, stride: int, kernel: int, pad: int) -> list[tuple[slice, slice]]:
    """Return ranges of windows on an axis, with the elements that are not padding."""
    starts = (index * stride - pad for index in range(count))
    extents = enumerate((max(0, -start), min(kernel, size - start)) for start in starts)
    ranges: list[tuple[slice, slice]] = []
    for extent, group in groupby(extents, key=lambda item: item[1]):
        indices = [index for index, _ in group]
        ranges.append((slice(indices[0], indices[-1] + 1), slice(*extent)))
    return ranges


FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Array], Attributes], Array | None]]] = {
    "Conv": _convolve,
    "MaxPool": _maximum,
    "AveragePool": _average,
}
"""The function of each operator; it returns None for a case that is left to onnx."""

KERNELS: Final[list[type[OpRun]]] = [Conv, MaxPool, AveragePool]
"""The classes for `ReferenceEvaluator(new_ops=...)`."""
