"""Padding, upsampling and resizing by numbers that are computed: dyn.nn.pad, dyn.nn.upsampling, dyn.image.resize2d.

They have the attributes of the operators of the same names; those that are computed are not looked at.
"""

from dataclasses import replace
from typing import TypeAlias

from apass.relay.ir.ndarray import Array
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.dyn.dyn import define_dynamic
from apass.relay.op.image import Resize2DAttrs
from apass.relay.op.nn.pad import PadAttrs
from apass.relay.op.nn.upsampling import UpSampling3DAttrs, UpSamplingAttrs
from apass.relay.ty import Any, TensorType

__all__: list[str] = []

Spatial: TypeAlias = UpSamplingAttrs | UpSampling3DAttrs | Resize2DAttrs
"""The attributes of operators that change the sizes of images."""


def _factors(scale: Array) -> tuple[float, ...]:
    return (float(scale.item()),)


def _pad_rule(data: TensorType, pad_width: TensorType, pad_value: TensorType, attrs: PadAttrs) -> TensorType:
    rank = len(data.shape)
    wanted = TensorType((rank, 2), pad_width.dtype)
    fits = len(pad_width.shape) == 2 and all(
        isinstance(dim, Any) or dim == size for dim, size in zip(pad_width.shape, wanted.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"pad_width must be a {wanted}, a pair for each dimension of the data, not a {pad_width}")
    if pad_value.shape:
        raise ValueError(f"pad_value must be a scalar, but it is a {pad_value}")
    return TensorType([Any()] * rank, data.dtype)


def _pad_attrs(attrs: PadAttrs, width: tuple[int, ...]) -> PadAttrs:
    return replace(attrs, pad_width=tuple(zip(width[::2], width[1::2], strict=True)))


def _image_type(data: TensorType, attrs: Spatial, dtype: str) -> TensorType:
    """Return the type of images of which only the spatial dimensions are unknown."""
    axes = parse_layout(attrs.layout).axes
    if len(axes) != len(data.shape):
        raise ValueError(f"layout {attrs.layout} is one of {len(axes)} dimensions, but the data is a {data}")
    known = zip(axes, data.shape, strict=True)
    return TensorType([dim if letter.upper() in "NC" else Any() for (letter, _), dim in known], dtype)


def _upsampling_rule(data: TensorType, *scales_and_attrs: object) -> TensorType:
    *scales, attrs = scales_and_attrs
    wrong = next((one for one in scales if isinstance(one, TensorType) and one.shape), None)
    if wrong is not None:
        raise ValueError(f"a scale must be a scalar, but it is a {wrong}")
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
        raise ValueError(f"size must be two numbers, but it is a {size}")
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
