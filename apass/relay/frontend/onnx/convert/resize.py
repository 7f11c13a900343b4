"""Resizing: each axis in turn, by a matrix that is worked out now, or by indices if elements are only repeated."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from apass.relay import op
from apass.relay.expr import Constant, Expr
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype, round_half_even
from apass.relay.frontend.onnx.convert.matmul import along_axis
from apass.relay.frontend.onnx.node import Node, Table

__all__ = ["TABLE"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stretch:
    """How one axis is resized."""

    axis: int
    """The axis."""
    length: int
    """Its size before."""
    scale: float
    """The factor that coordinates are scaled by."""
    wanted: int
    """Its size behind."""
    begin: float
    """Where the region that is taken begins, 0 being the first element and 1 the last."""
    end: float
    """Where it ends."""

    @property
    def is_nothing(self) -> bool:
        """Whether the axis stays as it is."""
        return self.wanted == self.length and self.scale == 1.0 and (self.begin, self.end) == (0.0, 1.0)


def half_pixel(one: Stretch, places: Floats) -> Floats:
    """Return the coordinates of the centres of pixels."""
    return (places + 0.5) / one.scale - 0.5


def half_pixel_symmetric(one: Stretch, places: Floats) -> Floats:
    """Return the coordinates of the centres of pixels, the middle of the result over the middle of the data."""
    shift = one.length / 2 * (1 - one.wanted / (one.scale * one.length))
    return shift + half_pixel(one, places)


def pytorch_half_pixel(one: Stretch, places: Floats) -> Floats:
    """Return the coordinates of the centres of pixels; of a single one, the first."""
    return half_pixel(one, places) if one.scale * one.length > 1 else np.zeros_like(places)


def align_corners(one: Stretch, places: Floats) -> Floats:
    """Return coordinates by which the first and the last element stay where they are."""
    steps = one.scale * one.length - 1
    return places * (one.length - 1) / steps if steps else np.zeros_like(places)


def asymmetric(one: Stretch, places: Floats) -> Floats:
    """Return the coordinates of the left edges of pixels."""
    return places / one.scale


def half_pixel_of_nearest(one: Stretch, places: Floats) -> Floats:
    """Return the coordinates that TensorFlow finds the nearest pixels by."""
    return (places + 0.5) / one.scale


def crop_and_resize(one: Stretch, places: Floats) -> Floats:
    """Return coordinates within the region that is taken."""
    last, steps = one.length - 1, one.scale * one.length - 1
    if steps <= 0:
        return np.full_like(places, 0.5 * (one.begin + one.end) * last)
    return one.begin * last + places * (one.end - one.begin) * last / steps


COORDINATES: Final[dict[str, Callable[[Stretch, Floats], Floats]]] = {
    "half_pixel": half_pixel,
    "half_pixel_symmetric": half_pixel_symmetric,
    "pytorch_half_pixel": pytorch_half_pixel,
    "align_corners": align_corners,
    "asymmetric": asymmetric,
    "tf_half_pixel_for_nn": half_pixel_of_nearest,
    "tf_crop_and_resize": crop_and_resize,
}
"""From places in the result to coordinates in the data, by the name of the mode."""

NEAREST: Final[dict[str, Callable[[Floats], Floats]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""From coordinates to the nearest element, by the name of the mode."""


def linear_kernel(distances: Floats) -> Floats:
    """Return how much elements at distances count: less and less up to 1."""
    return np.maximum(1 - distances, 0)


def cubic_kernel(distances: Floats, a: float) -> Floats:
    """Return how much elements at distances count: two cubic curves, up to 1 and up to 2."""
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = a * (((distances - 5) * distances + 8) * distances - 4)
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0.0))


def resize(node: Node) -> Expr:
    """Return the data resized along some of its axes."""
    mode = node.text("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
    if mode not in COORDINATES:
        raise node.unsupported(f"its coordinate_transformation_mode is {mode!r}")
    nearest = node.text("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    return resized(node, _stretches(node), mode, nearest)


def upsample(node: Node) -> Expr:
    """Return the data enlarged along its axes."""
    shape = node.static_shape(node[0])
    if node.version >= 9:
        scales = _numbers(node, 1) or ()
    elif node.version >= 7:
        scales = node.numbers("scales") or ()
    else:
        scales = (*[1.0] * (len(shape) - 2), node.number("height_scale"), node.number("width_scale"))
    stretches = [
        Stretch(axis, length, scale, int(length * scale), 0.0, 1.0)
        for axis, (length, scale) in enumerate(zip(shape, scales, strict=True))
    ]
    return resized(node, stretches, "asymmetric", "floor")


def _numbers(node: Node, index: int) -> tuple[float, ...] | None:
    value = node.value(index)
    return None if value is None or not value.size else tuple(float(one) for one in value.reshape(-1).tolist())


def _stretches(node: Node) -> list[Stretch]:
    """Return how the axes of the data are resized."""
    data, rank = node[0], node.rank(node[0])
    shape = node.static_shape(data)
    given = node.integers("axes")
    axes = list(range(rank)) if given is None else [node.normal_axis(axis, rank) for axis in given]
    lengths = [shape[axis] for axis in axes]
    scales, sizes = _numbers(node, 2 if node.version >= 11 else 1), node.ints(3)
    wants_roi = node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    roi = (_numbers(node, 1) if wants_roi else None) or (*[0.0] * len(axes), *[1.0] * len(axes))
    if sizes:
        scales, sizes = _kept_in_proportion(node, lengths, sizes)
    if scales is None:
        raise node.unsupported("it has neither scales nor sizes")
    wanted = sizes or [int(length * scale) for length, scale in zip(lengths, scales, strict=True)]
    begins, ends = roi[: len(axes)], roi[len(axes) :]
    return [Stretch(*one) for one in zip(axes, lengths, scales, wanted, begins, ends, strict=True)]


def _kept_in_proportion(
    node: Node, lengths: Sequence[int], sizes: Sequence[int]
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the scales that give sizes; and the sizes, changed if all scales have to be the same."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    scales = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return tuple(scales), tuple(sizes)
    scale = min(scales) if policy == "not_larger" else max(scales)
    return (scale,) * len(lengths), tuple(int(scale * length + 0.5) for length in lengths)


def resized(node: Node, stretches: Sequence[Stretch], mode: str, nearest: str) -> Expr:
    """Return the data resized along axes."""
    data, method = node[0], node.text("mode", "nearest")
    changed = [one for one in stretches if not one.is_nothing]
    if method == "nearest":
        for one in changed:
            coordinates = COORDINATES[mode](one, np.arange(one.wanted, dtype=np.float64))
            places = np.clip(NEAREST[nearest](coordinates), 0, one.length - 1).astype("int64")
            data = _cropped(node, op.take(data, Constant(places), axis=one.axis), one, mode, coordinates)
        return data
    if method not in ("linear", "bilinear", "cubic"):
        raise node.unsupported(f"its mode is {method!r}")
    dtype = node.dtype(data)
    wide = as_dtype(node, data, dtype if dtype in ("float32", "float64") else "float32")
    for one in changed:
        coordinates = COORDINATES[mode](one, np.arange(one.wanted, dtype=np.float64))
        matrix = _matrix(node, one, coordinates, method)
        wide = _cropped(node, along_axis(node, wide, matrix, one.axis), one, mode, coordinates)
    return _narrowed(node, wide, dtype)


def _narrowed(node: Node, data: Expr, dtype: str) -> Expr:
    """Return results of an element type; whole numbers are rounded, and kept within the range of theirs."""
    if "float" in dtype:
        return as_dtype(node, data, dtype)
    info = np.iinfo(dtype)
    return op.cast(op.clip(round_half_even(node, data), float(info.min), float(info.max)), dtype)


def _matrix(node: Node, one: Stretch, coordinates: Floats, method: str) -> Floats:
    """Return the matrix that makes results of elements: a row for each result."""
    shrinks = bool(node.integer("antialias", 0)) and one.scale < 1
    narrow = one.scale if shrinks else 1.0
    reach = int(np.ceil((2 if method == "cubic" else 1) / narrow)) + 1
    places = np.floor(coordinates)[:, None] + np.arange(-reach, reach + 1)
    distances = np.abs(places - coordinates[:, None]) * narrow
    if method == "cubic":
        weights = cubic_kernel(distances, node.number("cubic_coeff_a", -0.75))
    else:
        weights = linear_kernel(distances)
    if node.integer("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < one.length), weights, 0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((one.wanted, one.length))
    rows = np.broadcast_to(np.arange(one.wanted)[:, None], places.shape)
    np.add.at(matrix, (rows, np.clip(places, 0, one.length - 1).astype("int64")), weights)
    return matrix


def _cropped(node: Node, data: Expr, one: Stretch, mode: str, coordinates: Floats) -> Expr:
    """Return the data with a number in the places that a region beyond its edges stands for."""
    is_outside = (coordinates < 0) | (coordinates > one.length - 1)
    if mode != "tf_crop_and_resize" or not is_outside.any():
        return data
    mask = is_outside.reshape([-1] + [1] * (node.rank(data) - one.axis - 1))
    return op.where(Constant(mask), node.constant(node.number("extrapolation_value", 0.0), data), data)


TABLE: Final[Table] = {
    ("", "Resize", 10): resize,
    ("", "Upsample", 1): upsample,
}
"""The converters of this module."""
