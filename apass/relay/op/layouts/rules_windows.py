"""Layout rules of operators that have layouts as attributes.

A convolution or a dense layer requires the layouts of its attributes. Pooling and resizing accept any layout with the
same axes.
"""

from collections.abc import Sequence
from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Type
from apass.relay.op.layouts.infer import InferCorrectLayoutOutput, Layouts, set_rule, shape_of
from apass.relay.op.layouts.names import primal
from apass.relay.op.nn.dense.pack import DensePackAttrs

__all__ = ["ADAPTIVE_POOLS", "CONVS", "POOLS", "RESIZES"]

CONVS: Final = (
    "nn.conv1d",
    "nn.conv2d",
    "nn.conv3d",
    "nn.conv1d_transpose",
    "nn.conv2d_transpose",
    "nn.conv3d_transpose",
    "nn.contrib_conv2d_NCHWc",
    "nn.contrib_depthwise_conv2d_NCHWc",
)
"""Convolutions of data with a weight."""

POOLS: Final = (
    *(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)),
    "nn.global_max_pool2d",
    "nn.global_avg_pool2d",
)
"""Pooling over windows, and global pooling."""

ADAPTIVE_POOLS: Final = tuple(f"nn.adaptive_{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))
"""Pooling to a given size of the result."""

RESIZES: Final = ("nn.upsampling", "nn.upsampling3d", "image.resize1d", "image.resize2d", "image.resize3d")
"""Resizing. TVM 0.8 changes the layout of nn.upsampling only if height and width keep their positions."""


def _conv(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layouts of the attributes, whatever those of the operands are."""
    if attrs is None:
        return None
    data, kernel = attrs.get_str("data_layout"), attrs.get_str("kernel_layout")
    # The offsets of a deformable convolution are between data and weight, in the layout of the data.
    datas = (data,) * (len(old) - 1)
    return InferCorrectLayoutOutput((*datas, kernel), (attrs.get_str("out_layout") or data,), attrs)


def _dense(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layouts of matrices, with the weight in that of the attributes."""
    shape = shape_of(types[0])
    if attrs is None or shape is None or len(shape) != 2:
        return None
    weight = attrs.weight_layout if isinstance(attrs, DensePackAttrs) else "NC"
    return InferCorrectLayoutOutput(("NC", weight), ("NC",), attrs)


def _pool(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layout of the data, unless the call has an `out_layout`."""
    out_layout = "" if attrs is None else attrs.get_str("out_layout")
    if attrs is None or not out_layout:
        return _resize(attrs, new, old, types)
    return InferCorrectLayoutOutput((attrs.get_str("layout"),), (out_layout,), attrs)


def _resize(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layout of the data, if it has the same axes as the attribute."""
    if attrs is None:
        return None
    layout = attrs.get_str("layout")
    target = layout if new is None or new[0] is None or not _same_axes(new[0], layout) else new[0]
    adapted = attrs if target == layout else attrs.replaced(layout=target)
    return InferCorrectLayoutOutput((target,), (target,), adapted)


def _same_axes(layout: str, other: str) -> bool:
    return sorted(primal(layout)) == sorted(primal(other))


set_rule(_conv, (*CONVS, "nn.deformable_conv2d"))
set_rule(_dense, ("nn.dense", "nn.contrib_dense_pack"))
set_rule(_pool, (*POOLS, *ADAPTIVE_POOLS))
set_rule(_resize, RESIZES)
