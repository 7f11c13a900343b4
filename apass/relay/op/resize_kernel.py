"""Resizing of numpy arrays: nearest, linear, cubic, as defined by ONNX's Resize."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.ir.ndarray import Array

__all__ = ["COORDINATES", "METHODS", "ROUNDINGS", "Resizing", "resized"]

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]


def _half_pixel(positions: Floats, src: int, dst: int) -> Floats:
    return ((2 * positions + 1) * src - dst) / (2 * dst)


def _pytorch_half_pixel(positions: Floats, src: int, dst: int) -> Floats:
    return _half_pixel(positions, src, dst) if dst > 1 else np.zeros_like(positions)


def _align_corners(positions: Floats, src: int, dst: int) -> Floats:
    return positions * (src - 1) / max(dst - 1, 1)


def _asymmetric(positions: Floats, src: int, dst: int) -> Floats:
    return positions * src / dst


def _tf_half_pixel_for_nn(positions: Floats, src: int, dst: int) -> Floats:
    return (2 * positions + 1) * src / (2 * dst)


COORDINATES: Final[Mapping[str, Callable[[Floats, int, int], Floats]]] = MappingProxyType(
    {
        "half_pixel": _half_pixel,
        "pytorch_half_pixel": _pytorch_half_pixel,
        "align_corners": _align_corners,
        "asymmetric": _asymmetric,
        "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    }
)
"""How a position of the result, of length `dst`, is mapped to the data, of length `src`.

Each function multiplies before it divides, so that a position that is a whole number is computed exactly.
"""


def _round_prefer_ceil(positions: Floats) -> Floats:
    return np.floor(positions + 0.5)


def _round_prefer_floor(positions: Floats) -> Floats:
    return np.ceil(positions - 0.5)


ROUNDINGS: Final[Mapping[str, Callable[[Floats], Floats]]] = MappingProxyType(
    {
        "round": _round_prefer_ceil,
        "round_prefer_ceil": _round_prefer_ceil,
        "round_prefer_floor": _round_prefer_floor,
        "floor": np.floor,
        "ceil": np.ceil,
    }
)
"""How a position is rounded to the index of the nearest element."""

METHODS: Final = ("nearest_neighbor", "linear", "cubic")
"""How an element of the result is interpolated from the elements near its position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """Options of a resize."""

    method: str
    """One of `METHODS`."""
    coordinates: str
    """One of `COORDINATES`."""
    rounding: str = ""
    """One of `ROUNDINGS`, for the nearest element; empty for `round` with align_corners, else for `floor`."""
    cubic_alpha: float = -0.5
    """The coefficient of the cubic kernel."""
    cubic_exclude: bool = False
    """Whether the cubic kernel ignores elements beyond the edge, instead of repeating the edge."""


def resized(data: Array, sizes: Sequence[int], options: Resizing) -> Array:
    """Return the data with its last dimensions resized to `sizes`.

    The result has the element type of the computation, which may be wider than that of the data. The dimensions are
    resized in order.
    """
    out = data
    for axis, size in enumerate(sizes, data.ndim - len(sizes)):
        positions = COORDINATES[options.coordinates](np.arange(size, dtype=np.float64), data.shape[axis], size)
        resize_axis = _nearest if options.method == "nearest_neighbor" else _interpolated
        out = resize_axis(out, axis, positions, options)
    return out


def _nearest(data: Array, axis: int, positions: Floats, options: Resizing) -> Array:
    rounding = options.rounding or ("round" if options.coordinates == "align_corners" else "floor")
    return data.take(_clipped(ROUNDINGS[rounding](positions), data.shape[axis]), axis)


def _clipped(positions: Floats, length: int) -> Indices:
    return np.clip(positions, 0, length - 1).astype(np.intp)


def _interpolated(data: Array, axis: int, positions: Floats, options: Resizing) -> Array:
    """Return sums of near elements times weights.

    The weights are the same for all lines along the axis.
    """
    length, base = data.shape[axis], np.floor(positions)
    weights = _linear(positions - base) if options.method == "linear" else _cubic(positions - base, options.cubic_alpha)
    first = base if options.method == "linear" else base - 1
    if options.method == "cubic" and options.cubic_exclude:
        inside = [(first + tap >= 0) & (first + tap < length) for tap in range(len(weights))]
        included = np.where(inside, weights, 0.0)
        weights = list(included / included.sum(axis=0))
    # Integers and float16 are computed in float32.
    dtype = data.dtype if data.dtype in {np.dtype("float32"), np.dtype("float64")} else np.dtype("float32")
    weight_shape = (-1, *(1 for _ in range(data.ndim - axis - 1)))
    out: Array = np.zeros((), dtype)
    for tap, weight in enumerate(weights):
        near = data.take(_clipped(first + tap, length), axis)
        out = np.add(out, np.multiply(near, weight.astype(dtype).reshape(weight_shape)))
    return out


def _linear(fraction: Floats) -> list[Floats]:
    return [1 - fraction, fraction]


def _cubic(fraction: Floats, alpha: float) -> list[Floats]:
    rest = 1 - fraction
    return [_far(fraction + 1, alpha), _near(fraction, alpha), _near(rest, alpha), _far(rest + 1, alpha)]


def _near(distance: Floats, alpha: float) -> Floats:
    """Return the cubic convolution kernel for distances up to 1."""
    return ((alpha + 2) * distance - (alpha + 3)) * distance * distance + 1


def _far(distance: Floats, alpha: float) -> Floats:
    """Return the cubic convolution kernel for distances from 1 to 2."""
    return ((distance - 5) * distance + 8) * distance * alpha - 4 * alpha
