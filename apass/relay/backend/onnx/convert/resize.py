"""Resizing of images and volumes, to sizes or by factors."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from apass.relay.backend.onnx.convert.conv import from_plain, to_plain
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Site, Table
from apass.relay.op.define.dims import shape_text, static_dims
from apass.relay.op.image import ResizeAttrs
from apass.relay.op.nn.upsampling import UpSampling3DAttrs, UpSamplingAttrs

__all__ = ["TABLE"]

_METHODS: Final = {
    "bicubic": "cubic",
    "bilinear": "linear",
    "cubic": "cubic",
    "linear": "linear",
    "nearest_neighbor": "nearest",
    "trilinear": "linear",
}
"""ONNX's names of interpolations."""


Options: TypeAlias = tuple[str, str, str]
"""The method, the coordinate transformation and the rounding method."""


def resize(site: Site) -> Tensor:
    """Return the data resized to a size."""
    attrs = site.attrs(ResizeAttrs)
    sizes = static_dims(attrs.size)
    if sizes is None:
        raise site.unsupported(f"its size {shape_text(attrs.size)} must be numbers")
    return _to_size(site, attrs, sizes, len(sizes))


def dyn_resize2d(site: Site) -> Tensor:
    """Return the data resized to a computed size."""
    return _to_size(site, site.attrs(ResizeAttrs), [site.builder.cast(site[1], "int64")], 2)


def _to_size(site: Site, attrs: ResizeAttrs, sizes: Sequence[int | Tensor], rank: int) -> Tensor:
    rounding = "round_prefer_ceil" if attrs.rounding_method == "round" else attrs.rounding_method
    options = (attrs.method, attrs.coordinate_transformation_mode, rounding)
    return _resized(site, attrs.layout, sizes, rank, options, (attrs.cubic_alpha, attrs.cubic_exclude))


def upsampling(site: Site) -> Tensor:
    """Return images with height and width multiplied by factors."""
    attrs = site.attrs(UpSamplingAttrs)
    scales = (attrs.scale_h, attrs.scale_w) if len(site.operands) == 1 else (site[1], site[2])
    coordinates = "align_corners" if attrs.align_corners else "asymmetric"
    return _multiplied(site, attrs.layout, scales, (attrs.method, coordinates, ""))


def upsampling3d(site: Site) -> Tensor:
    """Return volumes with depth, height and width multiplied by factors."""
    attrs = site.attrs(UpSampling3DAttrs)
    known = (attrs.scale_d, attrs.scale_h, attrs.scale_w)
    scales = known if len(site.operands) == 1 else (site[1], site[2], site[3])
    return _multiplied(site, attrs.layout, scales, (attrs.method, attrs.coordinate_transformation_mode, ""))


def _multiplied(site: Site, layout: str, scales: Sequence[float | Tensor], options: Options) -> Tensor:
    data, dims = to_plain(site, 0, layout, len(scales))
    sizes: list[int | Tensor] = []
    for axis, (dim, scale) in enumerate(zip(dims[2:], scales, strict=True), 2):
        if isinstance(dim, int) and not isinstance(scale, Tensor):
            sizes.append(round(dim * scale))
        else:
            sizes.append(_product(site, data, axis, scale))
    return _resized(site, layout, sizes, len(scales), options, (-0.5, 0))


def _product(site: Site, data: Tensor, axis: int, scale: float | Tensor) -> Tensor:
    """Return a dimension multiplied by a factor, as a vector of one element."""
    # In 64 bits, in which Relay multiplies.
    builder = site.builder
    factor = builder.cast(scale, "float64") if isinstance(scale, Tensor) else builder.constant(scale, "float64")
    length = builder.cast(builder.dim(data, axis), "float64")
    return builder.cast(builder.emit("Round", builder.emit("Mul", length, factor)), "int64")


def _resized(
    site: Site,
    layout: str,
    sizes: Sequence[int | Tensor],
    rank: int,
    options: Options,
    cubic: tuple[float, int],
) -> Tensor:
    method, coordinates, rounding = options
    builder = site.builder
    data, dims = to_plain(site, 0, layout, rank)
    outer = [dim if isinstance(dim, int) else builder.dim(data, axis) for axis, dim in enumerate(dims[:2])]
    mode = _METHODS[method]
    chosen = rounding or ("round_prefer_ceil" if coordinates == "align_corners" else "floor")
    # The region, and the factors.
    empty = builder.constant(np.zeros(0, np.float32)) if builder.opset < 13 else None
    # Integers are interpolated as floats.
    wide = data if mode == "nearest" or "float" in data.dtype else builder.cast(data, "float32")
    result = builder.emit(
        "Resize",
        wide,
        empty,
        empty,
        builder.joined([*outer, *sizes]),
        mode=mode,
        coordinate_transformation_mode=coordinates,
        nearest_mode=chosen if mode == "nearest" else None,
        cubic_coeff_a=cubic[0] if mode == "cubic" else None,
        exclude_outside=cubic[1] if mode == "cubic" else None,
    )
    return from_plain(site, builder.cast(result, site.result.dtype), layout, rank)


TABLE: Final[Table] = {
    "dyn.image.resize2d": dyn_resize2d,
    "dyn.nn.upsampling": upsampling,
    "dyn.nn.upsampling3d": upsampling3d,
    **{f"image.resize{rank}d": resize for rank in (1, 2, 3)},
    "nn.upsampling": upsampling,
    "nn.upsampling3d": upsampling3d,
}
"""The converters of this module."""
