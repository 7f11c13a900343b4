"""What convolutions and poolings have in common: windows that slide over the spatial dimensions."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from apass.relay.expr import Expr
from apass.relay.frontend.onnx.node import Node
from apass.relay.ir.ndarray import Array

__all__ = ["Windows", "window_places", "windows_from", "windows_of"]


@dataclass(frozen=True, slots=True)
class Windows:
    """How windows lie over the spatial dimensions of a tensor."""

    sizes: tuple[int, ...]
    """The sizes of a window."""
    strides: tuple[int, ...]
    """The distances between windows."""
    dilations: tuple[int, ...]
    """The distances between the elements of a window."""
    pads: tuple[int, ...]
    """What is added before each dimension, then behind each."""

    @property
    def spans(self) -> tuple[int, ...]:
        """How far a window reaches in each dimension."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.sizes, self.dilations, strict=True))

    def sides(self, axis: int) -> tuple[int, int]:
        """Return what is added before and behind a dimension."""
        return self.pads[axis], self.pads[axis + len(self.sizes)]

    def count(self, axis: int, dim: int, *, ceil: bool = False) -> int:
        """Return how many windows a dimension has; with `ceil` the last may stick out, but starts within the data."""
        before, behind = self.sides(axis)
        rest, stride = dim + before + behind - self.spans[axis], self.strides[axis]
        if not ceil:
            return rest // stride + 1
        count = -(-rest // stride) + 1
        return count - 1 if (count - 1) * stride >= dim + before else count


def windows_from(node: Node, sizes: Sequence[int]) -> Windows:
    """Return windows of the sizes with strides, dilations and pads as the attributes of a node say."""
    ones = (1,) * len(sizes)
    strides, dilations = (node.integers(name) or ones for name in ("strides", "dilations"))
    return Windows(tuple(sizes), strides, dilations, node.integers("pads") or (0,) * (2 * len(sizes)))


def windows_of(node: Node, data: Expr, sizes: Sequence[int]) -> Windows:
    """Return how windows of the sizes lie, as the attributes of a node say."""
    rank = node.rank(data) - 2
    if len(sizes) != rank or not 1 <= rank <= 3:
        raise node.unsupported(f"its windows are of shape {tuple(sizes)}, its data of {node.type_of(data)}")
    explicit = windows_from(node, sizes)
    mode = node.text("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return explicit
    if mode == "VALID":
        return replace(explicit, pads=(0,) * (2 * rank))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.unsupported(f"its auto_pad is {mode!r}")
    totals = [_total(node, data, axis, explicit) for axis in range(rank)]
    less, more = [total // 2 for total in totals], [total - total // 2 for total in totals]
    pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    return replace(explicit, pads=pads)


def _total(node: Node, data: Expr, axis: int, windows: Windows) -> int:
    """Return the padding of a dimension that gives a window for every stride."""
    span, stride = windows.spans[axis], windows.strides[axis]
    if stride == 1:
        return span - 1
    dim = node.static_dim(data, axis + 2)
    return max((-(-dim // stride) - 1) * stride + span - dim, 0)


def window_places(windows: Windows, dims: Sequence[int], counts: Sequence[int]) -> tuple[Array, Array]:
    """Return, for each window and each of its elements, the place in the flat data, and whether there is one."""
    by_axis = [
        np.add.outer(np.arange(count) * windows.strides[axis], np.arange(size) * windows.dilations[axis])
        - windows.sides(axis)[0]
        for axis, (count, size) in enumerate(zip(counts, windows.sizes, strict=True))
    ]
    places = np.zeros((int(np.prod(counts)), int(np.prod(windows.sizes))), "int64")
    is_inside = np.ones(places.shape, bool)
    for row, window in enumerate(itertools.product(*map(range, counts))):
        grid = np.meshgrid(*(one[at] for one, at in zip(by_axis, window, strict=True)), indexing="ij")
        is_inside[row] = np.all([(one >= 0) & (one < dim) for one, dim in zip(grid, dims, strict=True)], 0).reshape(-1)
        places[row] = np.ravel_multi_index([one.reshape(-1) for one in grid], tuple(dims), mode="clip")
    return places, is_inside
