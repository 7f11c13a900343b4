"""Resizing by factors: nn.upsampling and nn.upsampling3d."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from apass.errors import did_you_mean
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Constant, Expr, Op, const
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType, Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import layout_like, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS
from apass.relay.op.resize_kernel import COORDINATES, Resizing, resized

__all__ = ["UpSampling3DAttrs", "UpSamplingAttrs", "upsampling", "upsampling3d"]

_METHODS = {
    "nearest_neighbor": "nearest_neighbor",
    "bilinear": "linear",
    "bicubic": "cubic",
    "trilinear": "linear",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSamplingAttrs(Attrs):
    """The attributes of nn.upsampling."""

    scale_h: float
    """The factor of the height."""
    scale_w: float
    """The factor of the width."""
    layout: str = "NCHW"
    """The layout of the data and of the result."""
    method: str = "nearest_neighbor"
    """nearest_neighbor, bilinear or bicubic."""
    align_corners: bool = False
    """Whether the corner elements of result and data are aligned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSampling3DAttrs(Attrs):
    """The attributes of nn.upsampling3d."""

    scale_d: float
    """The factor of the depth."""
    scale_h: float
    """The factor of the height."""
    scale_w: float
    """The factor of the width."""
    layout: str = "NCDHW"
    """The layout of the data and of the result."""
    method: str = "nearest_neighbor"
    """nearest_neighbor or trilinear."""
    coordinate_transformation_mode: str = "half_pixel"
    """How the index of an element is mapped to the data: half_pixel, align_corners or asymmetric."""


def _relation(types: Sequence[Type], attrs: UpSamplingAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.upsampling", types)
    if data is None:
        return None
    scales = (attrs.scale_h, attrs.scale_w)
    return [None, _scaled_type("nn.upsampling", data, attrs.layout, attrs.method, scales)]


def _relation3d(types: Sequence[Type], attrs: UpSampling3DAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.upsampling3d", types)
    if data is None:
        return None
    mode = attrs.coordinate_transformation_mode
    if mode not in COORDINATES:
        hint = did_you_mean(mode, COORDINATES, listing="known: ")
        raise TypeInferenceError(f"nn.upsampling3d: unknown coordinate_transformation_mode {mode!r}{hint}")
    scales = (attrs.scale_d, attrs.scale_h, attrs.scale_w)
    return [None, _scaled_type("nn.upsampling3d", data, attrs.layout, attrs.method, scales)]


def _scaled_type(op: str, data: TensorType, text: str, method: str, scales: Sequence[float]) -> TensorType:
    if method not in _METHODS:
        raise TypeInferenceError(f"{op}: unknown method {method!r}{did_you_mean(method, _METHODS)}")
    plain = DATA_LAYOUTS[len(scales)]
    layout = layout_like(op, "layout", text, plain)
    batch, channels, *lengths = shape_in_layout(op, "the data", data.shape, layout, plain)
    sizes = [_scaled(length, scale) for length, scale in zip(lengths, scales, strict=True)]
    return TensorType(shape_in_layout(op, "the result", (batch, channels, *sizes), plain, layout), data.dtype)


def _scaled(length: Dim, scale: float) -> Dim:
    if isinstance(length, int):
        return round(length * scale)
    return length * int(scale) if scale == int(scale) else Any()


def _compute(attrs: UpSamplingAttrs, data: Array) -> Array:
    options = Resizing(
        method=_METHODS[attrs.method], coordinates="align_corners" if attrs.align_corners else "asymmetric"
    )
    return _resize(data, attrs.layout, (attrs.scale_h, attrs.scale_w), options)


def _compute3d(attrs: UpSampling3DAttrs, data: Array) -> Array:
    options = Resizing(method=_METHODS[attrs.method], coordinates=attrs.coordinate_transformation_mode)
    return _resize(data, attrs.layout, (attrs.scale_d, attrs.scale_h, attrs.scale_w), options)


def _resize(data: Array, text: str, scales: Sequence[float], options: Resizing) -> Array:
    plain, layout = DATA_LAYOUTS[len(scales)], parse_layout(text)
    images = convert_array(data, layout, plain)
    sizes = [round(length * scale) for length, scale in zip(images.shape[2:], scales, strict=True)]
    return convert_array(resized(images, sizes, options).astype(data.dtype, copy=False), plain, layout)


register_op(
    "nn.upsampling",
    arguments=("data",),
    attrs_type=UpSamplingAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.INJECTIVE,
    level=2,
    description="Images resized by factors.",
)

register_op(
    "nn.upsampling3d",
    arguments=("data",),
    attrs_type=UpSampling3DAttrs,
    relation=_relation3d,
    compute=_compute3d,
    pattern=OpPattern.INJECTIVE,
    level=2,
    description="Volumes resized by factors.",
)


def _scaling(op: str, data: Expr, scales: Sequence[float | Expr], attrs: UpSamplingAttrs | UpSampling3DAttrs) -> Call:
    """Return a call with static scales, or a call of the `dyn` operator.

    If one scale is computed, all of them become arguments of the `dyn` operator.
    """
    if all(isinstance(scale, Constant) or not isinstance(scale, Expr) for scale in scales):
        names = [name for name, _ in attrs.items() if name.startswith("scale_")]
        known = dict(zip(names, map(_number, scales), strict=True))
        return Call(Op.get(op), (data,), Op.get(op).make_attrs(**(dict(attrs.items()) | known)))
    arguments = [scale if isinstance(scale, Expr) else const(float(scale)) for scale in scales]
    return Call(Op.get(f"dyn.{op}"), (data, *arguments), attrs)


def _number(scale: float | Expr) -> float:
    return float(scale.data.numpy().item()) if isinstance(scale, Constant) else float(cast("float", scale))


def upsampling(
    data: Expr,
    scale_h: float | Expr = 1,
    scale_w: float | Expr = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Call:
    """Return images with height and width multiplied by scales.

    `method` is nearest_neighbor, bilinear or bicubic. If a scale is an expression that is not a constant, the result
    is a call of dyn.nn.upsampling.
    """
    attrs = UpSamplingAttrs(scale_h=1.0, scale_w=1.0, layout=layout, method=method, align_corners=align_corners)
    return _scaling("nn.upsampling", data, (scale_h, scale_w), attrs)


def upsampling3d(
    data: Expr,
    scale_d: float | Expr = 1,
    scale_h: float | Expr = 1,
    scale_w: float | Expr = 1,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> Call:
    """Return volumes with depth, height and width multiplied by scales.

    `method` is nearest_neighbor or trilinear. If a scale is an expression that is not a constant, the result is a call
    of dyn.nn.upsampling3d.
    """
    attrs = UpSampling3DAttrs(
        scale_d=1.0,
        scale_h=1.0,
        scale_w=1.0,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
    )
    return _scaling("nn.upsampling3d", data, (scale_d, scale_h, scale_w), attrs)
