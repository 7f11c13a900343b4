"""Sliding windows over spatial dimensions, for convolutions and pooling."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apass.relay.frontend.onnx.node import Node
from apass.relay.ir.expr import Expr
from apass.relay.ir.ndarray import Array

__all__ = ["Windows", "window_indices", "windows_from", "windows_of"]


@dataclass(frozen=True, slots=True)
class Windows:
    """The geometry of windows over the spatial dimensions of a tensor."""

    sizes: tuple[int, ...]
    """The size of a window in each dimension."""
    strides: tuple[int, ...]
    """The distances between windows."""
    dilations: tuple[int, ...]
    """The distances between the elements of a window."""
    pads: tuple[int, ...]
    """The padding before each dimension, and then after each."""

    @property
    def spans(self) -> tuple[int, ...]:
        """The extent of a window in each dimension, with its dilation."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))

    def sides(self, axis: int) -> tuple[int, int]:
        """Return the padding before and after a dimension."""
        return self.pads[axis], self.pads[axis + len(self.sizes)]

    def count(self, axis: int, dim: int, *, ceil: bool = False) -> int:
        """Return the number of windows in a dimension.

        With `ceil`, the last window may extend past the padding. It must start before the end of the data.
        """
        before, after = self.sides(axis)
        rest, stride = dim + before + after - self.spans[axis], self.strides[axis]
        if not ceil:
            return rest // stride + 1
        count = -(-rest // stride) + 1
        return count - 1 if (count - 1) * stride >= dim + before else count


def windows_from(node: Node, sizes: Sequence[int]) -> Windows:
    """Return windows with the strides, dilations and pads of a node."""
    ones = (1,) * len(sizes)
    strides, dilations = (node.integers(name) or ones for name in ("strides", "dilations"))
    return Windows(tuple(sizes), strides, dilations, node.integers("pads") or (0,) * (2 * len(sizes)))


def windows_of(node: Node, data: Expr, sizes: Sequence[int]) -> Windows:
    """Return windows with the attributes of a node, including `auto_pad`."""
    rank = node.rank(data) - 2
    if len(sizes) != rank or not 1 <= rank <= 3:
        raise node.unsupported(f"windows of shape {tuple(sizes)} do not fit data of type {node.type_of(data)}")
    explicit = windows_from(node, sizes)
    mode = node.text("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return explicit
    if mode == "VALID":
        return replace(explicit, pads=(0,) * (2 * rank))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.unsupported(f"auto_pad {mode!r} is not supported")
    totals = [_total(node, data, axis, explicit) for axis in range(rank)]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    return replace(explicit, pads=pads)


def _total(node: Node, data: Expr, axis: int, windows: Windows) -> int:
    """Return the padding of a dimension for one window per stride (SAME padding)."""
    span, stride = windows.spans[axis], windows.strides[axis]
    if stride == 1:
        return span - 1
    dim = node.static_dim(data, axis + 2)
    return max((-(-dim // stride) - 1) * stride + span - dim, 0)


def window_indices(windows: Windows, dims: Sequence[int], counts: Sequence[int]) -> tuple[Array, Array]:
    """Return the index into the flat data of each element of each window.

    The second array is false where the index is outside of the data.
    """
    by_axis = [
        np.add.outer(np.arange(count) * windows.strides[axis], np.arange(size) * windows.dilations[axis])
        - windows.sides(axis)[0]
        for axis, (count, size) in enumerate(zip(counts, windows.sizes, strict=True))
    ]
    indices = np.zeros((int(np.prod(counts)), int(np.prod(windows.sizes))), "int64")
    is_inside = np.ones(indices.shape, bool)
    for row, window in enumerate(itertools.product(*map(range, counts))):
        grid = np.meshgrid(*(starts[at] for starts, at in zip(by_axis, window, strict=True)), indexing="ij")
        inside = [(coordinate >= 0) & (coordinate < dim) for coordinate, dim in zip(grid, dims, strict=True)]
        is_inside[row] = np.all(inside, 0).reshape(-1)
        indices[row] = np.ravel_multi_index([coordinate.reshape(-1) for coordinate in grid], tuple(dims), mode="clip")
    return indices, is_inside
