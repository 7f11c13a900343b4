"""Rules shared by forward and backward folding of scales into weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from apass.relay.ir.calls import along_axis, call_op, op_name, tensor_type
from apass.relay.ir.expr import Call, Constant, Expr
from apass.relay.ir.ty import Dim, TensorType
from apass.relay.op.define.layout import Layout, parse_layout
from apass.relay.op.nn.conv.conv import ConvAttrs

__all__ = [
    "CONVS",
    "Axes",
    "Demand",
    "is_nonzero",
    "is_positive",
    "scale_weight",
    "scaled_axes",
    "spread",
    "squeeze_to_axes",
]

Axes: TypeAlias = tuple[int, ...]
"""The position of the channels, and that of their blocks in a layout such as NCHW4c."""

CONVS: Final = frozenset({"nn.conv2d", "nn.conv3d"})
"""The convolutions whose weights can be scaled."""

_MOVES = frozenset({"expand_dims", "reshape", "transpose", "squeeze", "repeat"})
"""Operators that only move elements, so that signs and zeros can be read through them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A request for a factor per channel.

    An expression with a demand can absorb such a factor into its weights, or pass it on.
    """

    axes: Axes
    """The axes of the channels."""
    positive: bool = False
    """Whether all factors must be positive, as they pass a relu or leaky_relu."""
    nonzero: bool = False
    """Whether no factor may be zero, as a bias is divided by them."""

    def takes(self, scale: Expr) -> bool:
        """Return whether a scale is known to meet the demand."""
        if self.positive:
            return is_positive(scale)
        return not self.nonzero or is_nonzero(scale)


def is_positive(expr: Expr) -> bool:
    """Return whether all elements are known to be positive.

    Only constants are known, reshaped or not.
    """
    value = _constant_of(expr)
    return value is not None and bool(np.greater(value.data.numpy(), 0).all())


def is_nonzero(expr: Expr) -> bool:
    """Return whether all elements are known to be nonzero.

    Only constants are known, reshaped or not.
    """
    value = _constant_of(expr)
    return value is not None and bool((value.data.numpy() != 0).all())


def _constant_of(expr: Expr) -> Constant | None:
    while isinstance(expr, Call) and op_name(expr) in _MOVES:
        expr = expr.args[0]
    return expr if isinstance(expr, Constant) else None


def squeeze_to_axes(data: TensorType, factor: TensorType, axes: Axes, value: Expr) -> Expr | None:
    """Return `value` with the given axes alone; TVM's `MatchBroadcastToLeftAxes`.

    `value` is of type `factor`. Return None unless it broadcasts against `data` along `axes` alone.
    """
    # Shapes are aligned at their last dimensions.
    before = len(data.shape) - len(factor.shape)
    positions = [axis - before for axis in axes]
    if before < 0 or min(positions) < 0:
        return None
    if any(factor.shape[position] != data.shape[axis] for position, axis in zip(positions, axes, strict=True)):
        return None
    others = [index for index in range(len(factor.shape)) if index not in positions]
    if any(factor.shape[index] != 1 for index in others):
        return None
    return call_op("squeeze", value, axis=tuple(others)) if others else value


def spread(scale: Expr, shape: Sequence[Dim], axes: Axes) -> Expr:
    """Return a scale as a tensor that broadcasts along `axes` of a tensor.

    This is TVM's `ReshapeOrExpandToMatchAxis`.
    """
    if len(axes) == 1:
        return along_axis(scale, axes[0], len(shape))
    return call_op("reshape", scale, newshape=tuple(dim if axis in axes else 1 for axis, dim in enumerate(shape)))


def scaled_axes(call: Call, data: TensorType, *, output: bool) -> Axes | None:
    """Return the channel axes along which weights can be scaled, or None.

    They are axes of the result if `output` is true, else of the data. As in TVM 0.8, these are the calls of nn.conv2d,
    nn.conv3d and nn.dense. Of a convolution, either no tensor has blocks of channels, or all have. Integer weights are
    left as they are: they cannot be divided exactly, and narrow ones would overflow.
    """
    dtypes = {tensor_type(expr).dtype for expr in (call, *call.args[:2])}
    if len(dtypes) != 1 or "float" not in dtypes.pop():
        return None
    if op_name(call) == "nn.dense":
        return (1,) if len(data.shape) == 2 else None
    attrs = call.attrs
    if not isinstance(attrs, ConvAttrs) or op_name(call) not in CONVS:
        return None
    layout = parse_layout((attrs.out_layout or attrs.data_layout) if output else attrs.data_layout)
    kernel, weight = parse_layout(attrs.kernel_layout), tensor_type(call.args[1])
    axes = _axes_of(layout, "C")
    kinds = {len(axes), len(_axes_of(kernel, "O")), len(_axes_of(kernel, "I"))}
    # A reshape splits an axis in this order alone, and needs to know the sizes.
    in_order = all(tuple(sorted(each)) == each for each in (axes, _axes_of(kernel, "O"), _axes_of(kernel, "I")))
    is_known = kinds == {1} or (weight.is_static and (tensor_type(call) if output else data).is_static)
    if len(kinds) != 1 or not in_order or not is_known:
        return None
    return axes if attrs.groups == 1 or _is_depthwise(attrs, weight) else None


def _axes_of(layout: Layout, letter: str) -> Axes:
    """Return the position of an axis, and that of its block if it has one."""
    return tuple(index for index in (layout.index(letter), layout.index(letter.lower())) if index >= 0)


def _is_depthwise(attrs: ConvAttrs, weight: TensorType) -> bool:
    """Return whether each input channel has exactly one output channel."""
    layout = parse_layout(attrs.kernel_layout)
    if not weight.is_static:
        return False
    filters, inputs = (weight.concrete_shape[layout.index(letter)] * layout.factor(letter) for letter in "OI")
    return filters == attrs.groups and inputs == 1


def scale_weight(call: Call, weight: Expr, scale: Expr, shape: Sequence[Dim], *, output: bool) -> Expr:
    """Return the weight scaled by a factor for each output or each input channel.

    `shape` is the shape of the weight.
    """
    if not isinstance(call.attrs, ConvAttrs):
        return call_op("multiply", weight, along_axis(scale, 0 if output else 1, 2))
    kernel = parse_layout(call.attrs.kernel_layout)
    # The outputs of a depthwise convolution are its inputs.
    axes = _axes_of(kernel, "O" if output or call.attrs.groups != 1 else "I")
    return call_op("multiply", weight, spread(scale, shape, axes))
