"""Resizing on numpy arrays: nearest, linear and cubic, one dimension after another, as ONNX's Resize defines them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.ir.ndarray import Array

__all__ = ["COORDINATES", "METHODS", "ROUNDINGS", "Resizing", "resized"]

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]


def _half_pixel(places: Floats, src: int, dst: int) -> Floats:
    return ((2 * places + 1) * src - dst) / (2 * dst)


def _pytorch_half_pixel(places: Floats, src: int, dst: int) -> Floats:
    return _half_pixel(places, src, dst) if dst > 1 else np.zeros_like(places)


def _align_corners(places: Floats, src: int, dst: int) -> Floats:
    return places * (src - 1) / max(dst - 1, 1)


def _asymmetric(places: Floats, src: int, dst: int) -> Floats:
    return places * src / dst


def _tf_half_pixel_for_nn(places: Floats, src: int, dst: int) -> Floats:
    return (2 * places + 1) * src / (2 * dst)


COORDINATES: Final[Mapping[str, Callable[[Floats, int, int], Floats]]] = MappingProxyType(
    {
        "half_pixel": _half_pixel,
        "pytorch_half_pixel": _pytorch_half_pixel,
        "align_corners": _align_corners,
        "asymmetric": _asymmetric,
        "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    }
)
"""Where a place of the result, of length `dst`, lies in the data, of length `src`. Products come before the division,
so that a place that is a whole number comes out as one."""


def _round_prefer_ceil(places: Floats) -> Floats:
    return np.floor(places + 0.5)


def _round_prefer_floor(places: Floats) -> Floats:
    return np.ceil(places - 0.5)


ROUNDINGS: Final[Mapping[str, Callable[[Floats], Floats]]] = MappingProxyType(
    {
        "round": _round_prefer_ceil,
        "round_prefer_ceil": _round_prefer_ceil,
        "round_prefer_floor": _round_prefer_floor,
        "floor": np.floor,
        "ceil": np.ceil,
    }
)
"""Which element is nearest."""

METHODS: Final = ("nearest_neighbor", "linear", "cubic")
"""How an element of the result is made of those of the data that are near."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing:
    """How to resize."""

    method: str
    """One of `METHODS`."""
    coordinates: str
    """One of `COORDINATES`."""
    rounding: str = ""
    """One of `ROUNDINGS`, for the nearest element; empty for `round` with align_corners, for `floor` otherwise."""
    cubic_alpha: float = -0.5
    """The coefficient of the cubic kernel."""
    cubic_exclude: bool = False
    """Whether the cubic kernel leaves out elements beyond the edge, rather than repeating the edge."""


def resized(data: Array, sizes: Sequence[int], how: Resizing) -> Array:
    """Return the data with its last dimensions of the given sizes, in the element type that it is computed in."""
    out = data
    for axis, size in enumerate(sizes, data.ndim - len(sizes)):
        places = COORDINATES[how.coordinates](np.arange(size, dtype=np.float64), data.shape[axis], size)
        out = _nearest(out, axis, places, how) if how.method == "nearest_neighbor" else _mixed(out, axis, places, how)
    return out


def _nearest(data: Array, axis: int, places: Floats, how: Resizing) -> Array:
    rounding = how.rounding or ("round" if how.coordinates == "align_corners" else "floor")
    return data.take(_clipped(ROUNDINGS[rounding](places), data.shape[axis]), axis)


def _clipped(places: Floats, length: int) -> Places:
    return np.clip(places, 0, length - 1).astype(np.intp)


def _mixed(data: Array, axis: int, places: Floats, how: Resizing) -> Array:
    """Return sums of near elements times weights, the same for all lines along the axis."""
    length, base = data.shape[axis], np.floor(places)
    weights = _linear(places - base) if how.method == "linear" else _cubic(places - base, how.cubic_alpha)
    first = base if how.method == "linear" else base - 1
    if how.method == "cubic" and how.cubic_exclude:
        inside = [(first + tap >= 0) & (first + tap < length) for tap in range(len(weights))]
        kept = np.where(inside, weights, 0.0)
        weights = list(kept / kept.sum(axis=0))
    dtype = data.dtype if data.dtype in {np.dtype("float32"), np.dtype("float64")} else np.dtype("float32")
    lines = (-1, *(1 for _ in range(data.ndim - axis - 1)))
    out: Array = np.zeros((), dtype)
    for tap, weight in enumerate(weights):
        near = data.take(_clipped(first + tap, length), axis)
        out = np.add(out, np.multiply(near, weight.astype(dtype).reshape(lines)))
    return out


def _linear(fraction: Floats) -> list[Floats]:
    return [1 - fraction, fraction]


def _cubic(fraction: Floats, alpha: float) -> list[Floats]:
    rest = 1 - fraction
    return [_far(fraction + 1, alpha), _near(fraction, alpha), _near(rest, alpha), _far(rest + 1, alpha)]


def _near(distance: Floats, alpha: float) -> Floats:
    return ((alpha + 2) * distance - (alpha + 3)) * distance * distance + 1


def _far(distance: Floats, alpha: float) -> Floats:
    return ((distance - 5) * distance + 8) * distance * alpha - 4 * alpha
