"""Resizing of tensors, one axis at a time.

Interpolation is a product with a matrix computed at import. Nearest-neighbour resizing takes elements by index.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype, round_half_even
from apass.relay.frontend.onnx.convert.matmul import along_axis
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr

__all__ = ["TABLE"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AxisResize:
    """The parameters of the resizing of one axis."""

    axis: int
    """The axis."""
    length: int
    """The size of the input."""
    scale: float
    """The scale factor of coordinates."""
    new_length: int
    """The size of the result."""
    begin: float
    """The start of the cropped region, where 0 is the first element and 1 the last."""
    end: float
    """The end of the cropped region."""

    @property
    def is_identity(self) -> bool:
        """Whether the axis is not changed."""
        return self.new_length == self.length and self.scale == 1.0 and (self.begin, self.end) == (0.0, 1.0)


def half_pixel(spec: AxisResize, positions: Floats) -> Floats:
    """Return the coordinates of the centres of pixels."""
    return (positions + 0.5) / spec.scale - 0.5


def half_pixel_symmetric(spec: AxisResize, positions: Floats) -> Floats:
    """Return the coordinates of pixel centres, symmetric around the image centre."""
    shift = spec.length / 2 * (1 - spec.new_length / (spec.scale * spec.length))
    return shift + half_pixel(spec, positions)


def pytorch_half_pixel(spec: AxisResize, positions: Floats) -> Floats:
    """Return the coordinates of pixel centres; a single pixel gets 0."""
    return half_pixel(spec, positions) if spec.scale * spec.length > 1 else np.zeros_like(positions)


def align_corners(spec: AxisResize, positions: Floats) -> Floats:
    """Return coordinates that map the first and last elements to each other."""
    steps = spec.scale * spec.length - 1
    return positions * (spec.length - 1) / steps if steps else np.zeros_like(positions)


def asymmetric(spec: AxisResize, positions: Floats) -> Floats:
    """Return the coordinates of the left edges of pixels."""
    return positions / spec.scale


def half_pixel_of_nearest(spec: AxisResize, positions: Floats) -> Floats:
    """Return the coordinates that TensorFlow uses for the nearest neighbour."""
    return (positions + 0.5) / spec.scale


def crop_and_resize(spec: AxisResize, positions: Floats) -> Floats:
    """Return coordinates within the cropped region."""
    last, steps = spec.length - 1, spec.scale * spec.length - 1
    if steps <= 0:
        return np.full_like(positions, 0.5 * (spec.begin + spec.end) * last)
    return spec.begin * last + positions * (spec.end - spec.begin) * last / steps


COORDINATES: Final[dict[str, Callable[[AxisResize, Floats], Floats]]] = {
    "half_pixel": half_pixel,
    "half_pixel_symmetric": half_pixel_symmetric,
    "pytorch_half_pixel": pytorch_half_pixel,
    "align_corners": align_corners,
    "asymmetric": asymmetric,
    "tf_half_pixel_for_nn": half_pixel_of_nearest,
    "tf_crop_and_resize": crop_and_resize,
}
"""Functions from positions in the result to coordinates in the input, by mode."""

NEAREST: Final[dict[str, Callable[[Floats], Floats]]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""Functions from coordinates to indices of the nearest element, by mode."""


def linear_kernel(distances: Floats) -> Floats:
    """Return the weights of elements at distances: a triangle up to 1."""
    return np.maximum(1 - distances, 0)


def cubic_kernel(distances: Floats, a: float) -> Floats:
    """Return the weights of elements at distances: cubic curves up to 1 and up to 2."""
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = a * (((distances - 5) * distances + 8) * distances - 4)
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0.0))


def resize(node: Node) -> Expr:
    """Return the data resized along some of its axes."""
    mode = node.text("coordinate_transformation_mode", "half_pixel" if node.version >= 11 else "asymmetric")
    if mode not in COORDINATES:
        raise node.unsupported(f"coordinate_transformation_mode {mode!r} is not supported")
    nearest = node.text("nearest_mode", "round_prefer_floor" if node.version >= 11 else "floor")
    return resized(node, _axis_resizes(node), mode, nearest)


def upsample(node: Node) -> Expr:
    """Return the data enlarged along its axes (the predecessor of Resize)."""
    shape = node.static_shape(node[0])
    if node.version >= 9:
        scales = _numbers(node, 1) or ()
    elif node.version >= 7:
        scales = node.numbers("scales") or ()
    else:
        scales = (*[1.0] * (len(shape) - 2), node.number("height_scale"), node.number("width_scale"))
    axes = [
        AxisResize(axis, length, scale, int(length * scale), 0.0, 1.0)
        for axis, (length, scale) in enumerate(zip(shape, scales, strict=True))
    ]
    return resized(node, axes, "asymmetric", "floor")


def _numbers(node: Node, index: int) -> tuple[float, ...] | None:
    value = node.value(index)
    return None if value is None or not value.size else tuple(float(number) for number in value.reshape(-1).tolist())


def _axis_resizes(node: Node) -> list[AxisResize]:
    """Return the parameters of the axes that are resized."""
    data, rank = node[0], node.rank(node[0])
    shape = node.static_shape(data)
    attribute = node.integers("axes")
    axes = list(range(rank)) if attribute is None else [node.normal_axis(axis, rank) for axis in attribute]
    lengths = [shape[axis] for axis in axes]
    scales, sizes = _numbers(node, 2 if node.version >= 11 else 1), node.ints(3)
    has_roi = node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    roi = (_numbers(node, 1) if has_roi else None) or (*[0.0] * len(axes), *[1.0] * len(axes))
    if sizes:
        scales, sizes = _scales_and_sizes(node, lengths, sizes)
    if scales is None:
        raise node.unsupported("either scales or sizes must be given")
    new_lengths = sizes or [int(length * scale) for length, scale in zip(lengths, scales, strict=True)]
    begins, ends = roi[: len(axes)], roi[len(axes) :]
    return [AxisResize(*fields) for fields in zip(axes, lengths, scales, new_lengths, begins, ends, strict=True)]


def _scales_and_sizes(
    node: Node, lengths: Sequence[int], sizes: Sequence[int]
) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return the scales for sizes, and the sizes adjusted to the aspect ratio policy."""
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    scales = [size / length for size, length in zip(sizes, lengths, strict=True)]
    if policy == "stretch":
        return tuple(scales), tuple(sizes)
    scale = min(scales) if policy == "not_larger" else max(scales)
    return (scale,) * len(lengths), tuple(int(scale * length + 0.5) for length in lengths)


def resized(node: Node, axes: Sequence[AxisResize], mode: str, nearest: str) -> Expr:
    """Return the data resized along each changed axis."""
    data, method = node[0], node.text("mode", "nearest")
    changed = [axis for axis in axes if not axis.is_identity]
    if method == "nearest":
        for spec in changed:
            coordinates = COORDINATES[mode](spec, np.arange(spec.new_length, dtype=np.float64))
            indices = np.clip(NEAREST[nearest](coordinates), 0, spec.length - 1).astype("int64")
            data = _cropped(node, op.take(data, Constant(indices), axis=spec.axis), spec, mode, coordinates)
        return data
    if method not in ("linear", "bilinear", "cubic"):
        raise node.unsupported(f"mode {method!r} is not supported")
    dtype = node.dtype(data)
    wide = as_dtype(node, data, dtype if dtype in ("float32", "float64") else "float32")
    for spec in changed:
        coordinates = COORDINATES[mode](spec, np.arange(spec.new_length, dtype=np.float64))
        matrix = _matrix(node, spec, coordinates, method)
        wide = _cropped(node, along_axis(node, wide, matrix, spec.axis), spec, mode, coordinates)
    # Integers are rounded and saturated.
    if "float" in dtype:
        return as_dtype(node, wide, dtype)
    info = np.iinfo(dtype)
    return op.cast(op.clip(round_half_even(node, wide), float(info.min), float(info.max)), dtype)


def _matrix(node: Node, spec: AxisResize, coordinates: Floats, method: str) -> Floats:
    """Return the interpolation matrix, one row for each element of the result."""
    is_antialiased = bool(node.integer("antialias", 0)) and spec.scale < 1
    # With antialiasing, the kernel is stretched by the inverse of the scale.
    narrow = spec.scale if is_antialiased else 1.0
    reach = int(np.ceil((2 if method == "cubic" else 1) / narrow)) + 1
    indices = np.floor(coordinates)[:, None] + np.arange(-reach, reach + 1)
    distances = np.abs(indices - coordinates[:, None]) * narrow
    if method == "cubic":
        weights = cubic_kernel(distances, node.number("cubic_coeff_a", -0.75))
    else:
        weights = linear_kernel(distances)
    if node.integer("exclude_outside", 0):
        weights = np.where((indices >= 0) & (indices < spec.length), weights, 0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    matrix = np.zeros((spec.new_length, spec.length))
    rows = np.broadcast_to(np.arange(spec.new_length)[:, None], indices.shape)
    # Several elements outside of the data add up at its edge, so plain indexed assignment would lose weights.
    np.add.at(matrix, (rows, np.clip(indices, 0, spec.length - 1).astype("int64")), weights)
    return matrix


def _cropped(node: Node, data: Expr, spec: AxisResize, mode: str, coordinates: Floats) -> Expr:
    """Return the data with the extrapolation value outside of the cropped region."""
    is_outside = (coordinates < 0) | (coordinates > spec.length - 1)
    if mode != "tf_crop_and_resize" or not is_outside.any():
        return data
    mask = is_outside.reshape([-1] + [1] * (node.rank(data) - spec.axis - 1))
    return op.where(Constant(mask), node.constant(node.number("extrapolation_value", 0.0), data), data)


TABLE: Final[Table] = {
    ("", "Resize", 10): resize,
    ("", "Upsample", 1): upsample,
}
"""The converters of this module."""
