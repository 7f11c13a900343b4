"""Global pooling: nn.global_max_pool2d and nn.global_avg_pool2d.

The variants for 1 and 3 dimensions are adaptive pooling to size 1, as in TVM.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.pool.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool3d,
)
from apass.relay.op.nn.pool.kernel import averaged, summable
from apass.relay.op.nn.relations import layout_like, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS

__all__ = [
    "GlobalPool2DAttrs",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPool2DAttrs(Attrs):
    """The attributes of nn.global_max_pool2d and nn.global_avg_pool2d."""

    layout: str = "NCHW"
    """The layout of the data."""
    out_layout: str = ""
    """The layout of the result; empty for that of the data."""


def _define(name: str, compute: Compute, statistic: str) -> Op:
    def relation(types: Sequence[Type], attrs: GlobalPool2DAttrs) -> Sequence[Type | None] | None:
        data, _ = tensors(name, types)
        return None if data is None else [None, _pooled(name, data, attrs)]

    return register_op(
        name,
        arguments=("data",),
        attrs_type=GlobalPool2DAttrs,
        relation=relation,
        compute=compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        level=2,
        description=f"The {statistic} of each channel of each image.",
    )


def _pooled(op: str, data: TensorType, attrs: GlobalPool2DAttrs) -> TensorType:
    plain = DATA_LAYOUTS[2]
    src = layout_like(op, "layout", attrs.layout, plain)
    dst = layout_like(op, "out_layout", attrs.out_layout or attrs.layout, plain)
    batch, channels, _, _ = shape_in_layout(op, "the data", data.shape, src, plain)
    return TensorType(shape_in_layout(op, "the result", (batch, channels, 1, 1), plain, dst), data.dtype)


def _max(attrs: GlobalPool2DAttrs, data: Array) -> Array:
    return _in_out_layout(attrs, _images(attrs, data).max(axis=(2, 3), keepdims=True))


def _avg(attrs: GlobalPool2DAttrs, data: Array) -> Array:
    images = _images(attrs, data)
    total = images.sum(axis=(2, 3), keepdims=True, dtype=summable(str(data.dtype)))
    return _in_out_layout(attrs, averaged(total, np.asarray(images.shape[2] * images.shape[3]), str(data.dtype)))


def _images(attrs: GlobalPool2DAttrs, data: Array) -> Array:
    return convert_array(data, parse_layout(attrs.layout), DATA_LAYOUTS[2])


def _in_out_layout(attrs: GlobalPool2DAttrs, out: Array) -> Array:
    return convert_array(out, DATA_LAYOUTS[2], parse_layout(attrs.out_layout or attrs.layout))


_GLOBAL_MAX_POOL2D = _define("nn.global_max_pool2d", _max, "maximum")
_GLOBAL_AVG_POOL2D = _define("nn.global_avg_pool2d", _avg, "mean")


def global_max_pool2d(data: Expr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """Return the maximum of each channel of each image; spatial dimensions become 1."""
    return Call(_GLOBAL_MAX_POOL2D, (data,), GlobalPool2DAttrs(layout=layout, out_layout=out_layout))


def global_avg_pool2d(data: Expr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """Return the mean of each channel of each image; spatial dimensions become 1."""
    return Call(_GLOBAL_AVG_POOL2D, (data,), GlobalPool2DAttrs(layout=layout, out_layout=out_layout))


def global_max_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Call:
    """Return the maximum of each channel of each sequence; its length becomes 1."""
    return adaptive_max_pool1d(data, 1, layout, out_layout)


def global_max_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """Return the maximum of each channel of each volume; spatial dimensions become 1."""
    return adaptive_max_pool3d(data, 1, layout, out_layout)


def global_avg_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Call:
    """Return the mean of each channel of each sequence; its length becomes 1."""
    return adaptive_avg_pool1d(data, 1, layout, out_layout)


def global_avg_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """Return the mean of each channel of each volume; spatial dimensions become 1."""
    return adaptive_avg_pool3d(data, 1, layout, out_layout)
