"""Operators that insert, remove and reorder dimensions.

These are expand_dims, squeeze, transpose, reverse and layout_transform.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType
from apass.relay.op.define.arguments import Ints, computed_expr, static_ints
from apass.relay.op.define.attrs import always_printed
from apass.relay.op.define.dims import axes_of, axis_of, shape_text
from apass.relay.op.define.layout import convert_array, convert_shape, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward

__all__ = [
    "ExpandDimsAttrs",
    "LayoutTransformAttrs",
    "ReverseAttrs",
    "SqueezeAttrs",
    "TransposeAttrs",
    "expand_dims",
    "layout_transform",
    "reverse",
    "squeeze",
    "transpose",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpandDimsAttrs(Attrs):
    """The attributes of expand_dims."""

    axis: int
    """The position of the new dimensions."""
    num_newaxis: int = 1
    """The number of new dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqueezeAttrs(Attrs):
    """The attributes of squeeze."""

    axis: tuple[int, ...] | None = None
    """The dimensions that are removed; None for all of size 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransposeAttrs(Attrs):
    """The attributes of transpose."""

    axes: tuple[int, ...] | None = always_printed(None)
    """The source dimension of each dimension of the result; None to reverse all dimensions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseAttrs(Attrs):
    """The attributes of reverse."""

    axis: Integer
    """The axis along which the order is reversed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutTransformAttrs(Attrs):
    """The attributes of layout_transform."""

    src_layout: str
    """The layout of the data, such as NCHW."""
    dst_layout: str
    """The layout of the result, such as NHWC or NCHW16c."""


_MOST_NEW_AXES: Final = 1000


def _expanded(shape: Sequence[Dim], attrs: ExpandDimsAttrs) -> tuple[Dim, ...]:
    rank = len(shape)
    if not -rank - 1 <= attrs.axis <= rank:
        raise ValueError(f"axis {attrs.axis} is out of range for {rank} dimensions; expected {-rank - 1} to {rank}")
    if attrs.num_newaxis < 0:
        raise ValueError(f"num_newaxis must be 0 or more, got {attrs.num_newaxis}")
    if attrs.num_newaxis > _MOST_NEW_AXES:
        raise ValueError(f"num_newaxis must be at most {_MOST_NEW_AXES}, got {attrs.num_newaxis}")
    position = attrs.axis if attrs.axis >= 0 else rank + attrs.axis + 1
    return (*shape[:position], *(1 for _ in range(attrs.num_newaxis)), *shape[position:])


def _relate_expand_dims(data: TensorType, attrs: ExpandDimsAttrs) -> TensorType:
    return TensorType(_expanded(data.shape, attrs), data.dtype)


def _expand_dims(attrs: ExpandDimsAttrs, data: Array) -> Array:
    return data.reshape([dim for dim in _expanded(data.shape, attrs) if isinstance(dim, int)])


def _relate_squeeze(data: TensorType, attrs: SqueezeAttrs) -> TensorType:
    if attrs.axis is None and not data.is_static:
        raise ValueError(f"axis is required, because it is not known which dimensions of {data} have size 1")
    removed = _squeezed(data.shape, attrs)
    return TensorType([dim for axis, dim in enumerate(data.shape) if axis not in removed], data.dtype)


def _squeezed(shape: Sequence[Dim], attrs: SqueezeAttrs) -> tuple[int, ...]:
    if attrs.axis is None:
        return tuple(axis for axis, dim in enumerate(shape) if dim == 1)
    removed = axes_of(len(shape), attrs.axis)
    if any(isinstance(shape[axis], int) and shape[axis] != 1 for axis in removed):
        raise ValueError(f"only axes of size 1 can be squeezed, got axes {shape_text(removed)} of {shape_text(shape)}")
    return removed


def _squeeze(attrs: SqueezeAttrs, data: Array) -> Array:
    return np.squeeze(data, _squeezed(data.shape, attrs))


def _order(rank: int, attrs: TransposeAttrs) -> tuple[int, ...]:
    if attrs.axes is None:
        return tuple(reversed(range(rank)))
    order = tuple(axis_of(rank, axis) for axis in attrs.axes)
    if sorted(order) != list(range(rank)):
        raise ValueError(f"axes must name each of the {rank} dimensions once, got {shape_text(attrs.axes)}")
    return order


def _relate_transpose(data: TensorType, attrs: TransposeAttrs) -> TensorType:
    return TensorType([data.shape[axis] for axis in _order(len(data.shape), attrs)], data.dtype)


def _transpose(attrs: TransposeAttrs, data: Array) -> Array:
    return data.transpose(_order(data.ndim, attrs))


def _relate_reverse(data: TensorType, attrs: ReverseAttrs) -> TensorType:
    axis_of(len(data.shape), attrs.axis)
    return data


def _reverse(attrs: ReverseAttrs, data: Array) -> Array:
    return np.flip(data, attrs.axis)


def _relate_layout(data: TensorType, attrs: LayoutTransformAttrs) -> TensorType:
    src, dst = parse_layout(attrs.src_layout), parse_layout(attrs.dst_layout)
    return TensorType(convert_shape(data.shape, src, dst), data.dtype)


def _layout_transform(attrs: LayoutTransformAttrs, data: Array) -> Array:
    return convert_array(data, parse_layout(attrs.src_layout), parse_layout(attrs.dst_layout))


_EXPAND_DIMS = register_op(
    "expand_dims",
    arguments=("data",),
    attrs_type=ExpandDimsAttrs,
    relation=forward("expand_dims", ("data",), _relate_expand_dims),
    compute=_expand_dims,
    pattern=OpPattern.BROADCAST,
    level=1,
    description="The tensor with dimensions of size 1 inserted.",
)
_SQUEEZE = register_op(
    "squeeze",
    arguments=("data",),
    attrs_type=SqueezeAttrs,
    relation=forward("squeeze", ("data",), _relate_squeeze),
    compute=_squeeze,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The tensor without dimensions of size 1.",
)
_TRANSPOSE = register_op(
    "transpose",
    arguments=("data",),
    attrs_type=TransposeAttrs,
    relation=forward("transpose", ("data",), _relate_transpose),
    compute=_transpose,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The tensor with its dimensions in another order.",
)
_REVERSE = register_op(
    "reverse",
    arguments=("data",),
    attrs_type=ReverseAttrs,
    relation=forward("reverse", ("data",), _relate_reverse),
    compute=_reverse,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The tensor with the order along an axis reversed.",
)
_LAYOUT_TRANSFORM = register_op(
    "layout_transform",
    arguments=("data",),
    attrs_type=LayoutTransformAttrs,
    relation=forward("layout_transform", ("data",), _relate_layout),
    compute=_layout_transform,
    pattern=OpPattern.INJECTIVE,
    level=5,
    description="The tensor in another layout.",
)
for _op in (_EXPAND_DIMS, _SQUEEZE):
    _op.set_attr("TReshapeOp", True)


def expand_dims(data: Expr, axis: int | Expr, num_newaxis: int = 1) -> Call:
    """Return the tensor with `num_newaxis` dimensions of size 1 inserted.

    They are inserted before `axis`, from 0 to the number of dimensions. A negative axis is counted from after the last
    dimension, so -1 inserts them at the end.
    """
    expression = computed_expr(axis)
    if expression is not None:
        return call_op("dyn.expand_dims", data, expression, num_newaxis=num_newaxis)
    (position,) = static_ints("expand_dims", "axis", axis)
    return Call(_EXPAND_DIMS, (data,), ExpandDimsAttrs(axis=position, num_newaxis=num_newaxis))


def squeeze(data: Expr, axis: Ints | None = None) -> Call:
    """Return the tensor without the dimensions of `axis`, which must have size 1.

    If `axis` is None, remove all dimensions of size 1.
    """
    expression = computed_expr(axis)
    if expression is not None:
        return call_op("dyn.squeeze", data, expression)
    axes = None if axis is None else static_ints("squeeze", "axis", axis)
    return Call(_SQUEEZE, (data,), SqueezeAttrs(axis=axes))


def transpose(data: Expr, axes: Iterable[int] | None = None) -> Call:
    """Return the tensor with its dimensions in the order of `axes`.

    If `axes` is None, reverse the dimensions.
    """
    return Call(
        _TRANSPOSE, (data,), TransposeAttrs(axes=None if axes is None else static_ints("transpose", "axes", axes))
    )


def reverse(data: Expr, axis: int) -> Call:
    """Return the tensor with the order along `axis` reversed."""
    return Call(_REVERSE, (data,), ReverseAttrs(axis=axis))


def layout_transform(data: Expr, src_layout: str, dst_layout: str) -> Call:
    """Return the tensor converted from one layout to another.

    Layouts are texts such as NCHW, NHWC, OIHW and NCHW16c.
    """
    return Call(_LAYOUT_TRANSFORM, (data,), LayoutTransformAttrs(src_layout=src_layout, dst_layout=dst_layout))
