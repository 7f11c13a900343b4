"""Operators on images: image.resize1d, image.resize2d, image.resize3d."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex

from apass.errors import did_you_mean
from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Constant, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.op.define.dims import shape_text, static_dims
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import layout_like, out_type, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS
from apass.relay.op.resize_kernel import COORDINATES, METHODS, ROUNDINGS, Resizing, resized

__all__ = ["Resize1DAttrs", "Resize2DAttrs", "Resize3DAttrs", "ResizeAttrs", "resize1d", "resize2d", "resize3d"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeAttrs(Attrs):
    """The attributes that resize1d, resize2d and resize3d share."""

    size: tuple[Dim, ...]
    """The spatial dimensions of the result."""
    layout: str
    """The layout of the data and of the result."""
    method: str = "linear"
    """How an element is interpolated: nearest_neighbor, linear or cubic."""
    coordinate_transformation_mode: str = "half_pixel"
    """How the index of an element is mapped to the data: half_pixel, align_corners, asymmetric, ..."""
    rounding_method: str = "round"
    """How the nearest element is chosen; empty for the default of the coordinate transformation."""
    cubic_alpha: float = -0.5
    """The coefficient of the cubic kernel."""
    cubic_exclude: int = 0
    """Whether the cubic kernel ignores elements beyond the edge."""
    out_dtype: str = ""
    """The element type of the result; empty for the element type of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize1DAttrs(ResizeAttrs):
    """The attributes of image.resize1d."""

    layout: str = "NCW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize2DAttrs(ResizeAttrs):
    """The attributes of image.resize2d."""

    layout: str = "NCHW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize3DAttrs(ResizeAttrs):
    """The attributes of image.resize3d."""

    layout: str = "NCDHW"
    """The layout of the data."""


def _define(name: str, attrs_type: type[ResizeAttrs], rank: int) -> Op:
    def relation(types: Sequence[Type], attrs: ResizeAttrs) -> Sequence[Type | None] | None:
        data, _ = tensors(name, types)
        return None if data is None else [None, _resized_type(name, rank, data, attrs)]

    return register_op(
        name,
        arguments=("data",),
        attrs_type=attrs_type,
        relation=relation,
        compute=_compute,
        pattern=OpPattern.INJECTIVE,
        level=5,
        description=f"The data resized over {rank} spatial dimension{'s' if rank > 1 else ''}.",
    )


def _resized_type(op: str, rank: int, data: TensorType, attrs: ResizeAttrs) -> TensorType:
    plain = DATA_LAYOUTS[rank]
    layout = layout_like(op, "layout", attrs.layout, plain)
    if len(attrs.size) != rank or any(isinstance(size, int) and size < 1 for size in attrs.size):
        raise TypeInferenceError(f"{op}: size must be {rank} positive numbers, got {attrs.size}")
    for field, value, known in (
        ("method", attrs.method, METHODS),
        ("coordinate_transformation_mode", attrs.coordinate_transformation_mode, COORDINATES),
        ("rounding_method", attrs.rounding_method, ("", *ROUNDINGS)),
    ):
        if value not in known:
            hint = did_you_mean(value, known, listing="known: ")
            raise TypeInferenceError(f"{op}: unknown {field} {value!r}{hint}")
    batch, channels, *_ = shape_in_layout(op, "the data", data.shape, layout, plain)
    shape = shape_in_layout(op, "the result", (batch, channels, *attrs.size), plain, layout)
    return out_type(shape, attrs.out_dtype, data)


def _compute(attrs: ResizeAttrs, data: Array) -> Array:
    plain, layout = DATA_LAYOUTS[len(attrs.size)], parse_layout(attrs.layout)
    options = Resizing(
        method=attrs.method,
        coordinates=attrs.coordinate_transformation_mode,
        rounding=attrs.rounding_method,
        cubic_alpha=attrs.cubic_alpha,
        cubic_exclude=bool(attrs.cubic_exclude),
    )
    sizes = static_dims(attrs.size)
    if sizes is None:
        raise ValueError(f"the size {shape_text(attrs.size)} is symbolic; only the type of the result is known")
    out = resized(convert_array(data, layout, plain), sizes, options)
    return convert_array(out.astype(attrs.out_dtype or data.dtype, copy=False), plain, layout)


_RESIZE1D = _define("image.resize1d", Resize1DAttrs, 1)
_RESIZE2D = _define("image.resize2d", Resize2DAttrs, 2)
_RESIZE3D = _define("image.resize3d", Resize3DAttrs, 3)


def _sizes(size: Dim | Iterable[Dim] | Expr, rank: int) -> tuple[Dim, ...]:
    if isinstance(size, Constant):
        return tuple(int(item) for item in size.data.numpy().ravel().tolist())
    if isinstance(size, Expr):
        raise TypeError(f"size must be numbers or a constant, got {size!r}; fold it to a constant first")
    dims = tuple(size) if isinstance(size, Iterable) else (size,) * rank
    return tuple(index(dim) if isinstance(dim, SupportsIndex) else dim for dim in dims)


def _attrs(
    attrs_type: type[ResizeAttrs],
    size: tuple[Dim, ...],
    layout: str,
    interpolation: tuple[str, str, str],
    cubic: tuple[float, int],
    out_dtype: str | None,
) -> ResizeAttrs:
    method, coordinates, rounding = interpolation
    return attrs_type(
        size=size,
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinates,
        rounding_method=rounding,
        cubic_alpha=float(cubic[0]),
        cubic_exclude=int(cubic[1]),
        out_dtype=out_dtype or "",
    )


def resize1d(
    data: Expr,
    size: Dim | Iterable[Dim] | Constant,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    out_dtype: str | None = None,
) -> Call:
    """Return sequences resized to `size`. The parameters are those of `resize2d`."""
    interpolation = (method, coordinate_transformation_mode, rounding_method)
    attrs = _attrs(Resize1DAttrs, _sizes(size, 1), layout, interpolation, (cubic_alpha, cubic_exclude), out_dtype)
    return Call(_RESIZE1D, (data,), attrs)


def resize2d(
    data: Expr,
    size: Dim | Iterable[Dim] | Expr,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    out_dtype: str | None = None,
) -> Call:
    """Return images resized to `size`, a height and a width.

    Parameters:
        data: the images.
        size: the height and the width of the result. If it is an expression that is not a constant, the result is a
            call of dyn.image.resize2d.
        layout: the layout of the data and of the result.
        method: nearest_neighbor, linear or cubic.
        coordinate_transformation_mode: half_pixel, align_corners, asymmetric, pytorch_half_pixel or
            tf_half_pixel_for_nn.
        rounding_method: round, round_prefer_floor, round_prefer_ceil, floor or ceil; empty for the default of the
            coordinate transformation.
        cubic_alpha: the coefficient of the cubic kernel.
        cubic_exclude: whether the cubic kernel ignores elements beyond the edge.
        out_dtype: the element type of the result; None for the element type of the data.

    The modes and methods are those of ONNX's Resize.
    """
    interpolation = (method, coordinate_transformation_mode, rounding_method)
    is_computed = isinstance(size, Expr) and not isinstance(size, Constant)
    sizes = () if is_computed else _sizes(size, 2)
    attrs = _attrs(Resize2DAttrs, sizes, layout, interpolation, (cubic_alpha, cubic_exclude), out_dtype)
    if isinstance(size, Expr) and is_computed:
        return Call(Op.get("dyn.image.resize2d"), (data, size), attrs)
    return Call(_RESIZE2D, (data,), attrs)


def resize3d(
    data: Expr,
    size: Dim | Iterable[Dim] | Constant,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    cubic_alpha: float = -0.5,
    cubic_exclude: int = 0,
    out_dtype: str | None = None,
) -> Call:
    """Return volumes resized to `size`. The parameters are those of `resize2d`."""
    interpolation = (method, coordinate_transformation_mode, rounding_method)
    attrs = _attrs(Resize3DAttrs, _sizes(size, 3), layout, interpolation, (cubic_alpha, cubic_exclude), out_dtype)
    return Call(_RESIZE3D, (data,), attrs)
