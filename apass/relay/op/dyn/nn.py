"""Padding, upsampling and resizing with computed sizes.

These are dyn.nn.pad, dyn.nn.upsampling, dyn.nn.upsampling3d and dyn.image.resize2d. They have the attributes of the
operators of the same names, and ignore those that are computed.
"""

from dataclasses import replace
from typing import TypeAlias

from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, TensorType
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.dyn.dyn import define_dynamic
from apass.relay.op.image import Resize2DAttrs
from apass.relay.op.nn.pad import PadAttrs
from apass.relay.op.nn.upsampling import UpSampling3DAttrs, UpSamplingAttrs

__all__: list[str] = []

Spatial: TypeAlias = UpSamplingAttrs | UpSampling3DAttrs | Resize2DAttrs
"""The attributes of operators that change the sizes of images."""


def _factors(scale: Array) -> tuple[float, ...]:
    return (float(scale.item()),)


def _pad_rule(data: TensorType, pad_width: TensorType, pad_value: TensorType, attrs: PadAttrs) -> TensorType:
    rank = len(data.shape)
    expected = TensorType((rank, 2), pad_width.dtype)
    fits = len(pad_width.shape) == 2 and all(
        isinstance(dim, Any) or dim == size for dim, size in zip(pad_width.shape, expected.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"pad_width must be {expected}, a pair for each dimension of the data, got {pad_width}")
    if pad_value.shape:
        raise ValueError(f"pad_value must be a scalar, got {pad_value}")
    return TensorType([Any()] * rank, data.dtype)


def _pad_attrs(attrs: PadAttrs, width: tuple[int, ...]) -> PadAttrs:
    return replace(attrs, pad_width=tuple(zip(width[::2], width[1::2], strict=True)))


def _image_type(data: TensorType, attrs: Spatial, dtype: str) -> TensorType:
    """Return the type of images in which only the spatial dimensions are unknown."""
    axes = parse_layout(attrs.layout).axes
    if len(axes) != len(data.shape):
        raise ValueError(f"layout {attrs.layout} has {len(axes)} dimensions, but the data is {data}")
    dims = zip(axes, data.shape, strict=True)
    return TensorType([dim if letter.upper() in "NC" else Any() for (letter, _), dim in dims], dtype)


def _upsampling_rule(data: TensorType, *scales_and_attrs: object) -> TensorType:
    *scales, attrs = scales_and_attrs
    wrong = next((scale for scale in scales if isinstance(scale, TensorType) and scale.shape), None)
    if wrong is not None:
        raise ValueError(f"a scale must be a scalar, got {wrong}")
    assert isinstance(attrs, UpSamplingAttrs | UpSampling3DAttrs)
    return _image_type(data, attrs, data.dtype)


def _upsampling_attrs(attrs: UpSamplingAttrs, h: tuple[float], w: tuple[float]) -> UpSamplingAttrs:
    return replace(attrs, scale_h=h[0], scale_w=w[0])


def _upsampling3d_attrs(
    attrs: UpSampling3DAttrs, d: tuple[float], h: tuple[float], w: tuple[float]
) -> UpSampling3DAttrs:
    return replace(attrs, scale_d=d[0], scale_h=h[0], scale_w=w[0])


def _resize_rule(data: TensorType, size: TensorType, attrs: Resize2DAttrs) -> TensorType:
    if len(size.shape) != 1 or (not isinstance(size.shape[0], Any) and size.shape[0] != 2):
        raise ValueError(f"size must be two numbers, got {size}")
    return _image_type(data, attrs, attrs.out_dtype or data.dtype)


def _resize_attrs(attrs: Resize2DAttrs, size: tuple[int, ...]) -> Resize2DAttrs:
    return replace(attrs, size=size)


define_dynamic("nn.pad", ("data", "pad_width", "pad_value"), _pad_rule, _pad_attrs, attrs_type=PadAttrs, first=1)
define_dynamic(
    "nn.upsampling",
    ("data", "scale_h", "scale_w"),
    _upsampling_rule,
    _upsampling_attrs,
    attrs_type=UpSamplingAttrs,
    vectors=2,
    read=_factors,
)
define_dynamic(
    "nn.upsampling3d",
    ("data", "scale_d", "scale_h", "scale_w"),
    _upsampling_rule,
    _upsampling3d_attrs,
    attrs_type=UpSampling3DAttrs,
    vectors=3,
    read=_factors,
)
define_dynamic("image.resize2d", ("data", "size"), _resize_rule, _resize_attrs, attrs_type=Resize2DAttrs)
