"""Rules shared by forward and backward folding of scales into weights."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.calls import along_axis, call_op, op_name, tensor_type
from apass.relay.ir.expr import Call, Constant, Expr
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.nn.conv.conv import ConvAttrs

__all__ = ["Demand", "is_nonzero", "is_positive", "scale_weight", "scaled_axis", "squeeze_to_axis"]

_MOVES = frozenset({"expand_dims", "reshape", "transpose", "squeeze", "repeat"})
"""Operators that only move elements, so that signs and zeros can be read through them."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A request for a factor per slice along an axis.

    An expression with a demand can absorb such a factor into its weights, or pass it on.
    """

    axis: int
    """The axis."""
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


def squeeze_to_axis(data: TensorType, factor: TensorType, axis: int, value: Expr) -> Expr | None:
    """Return `value` as a vector along `axis`; TVM's `MatchBroadcastToLeftAxes`.

    `value` is of type `factor`. Return None unless it broadcasts against `data` along `axis` alone.
    """
    # Shapes are aligned at their last dimensions.
    before = len(data.shape) - len(factor.shape)
    position = axis - before
    if before < 0 or position < 0 or factor.shape[position] != data.shape[axis]:
        return None
    others = [index for index in range(len(factor.shape)) if index != position]
    if any(factor.shape[index] != 1 for index in others):
        return None
    return call_op("squeeze", value, axis=tuple(others)) if others else value


def scaled_axis(call: Call, data: TensorType, *, output: bool) -> int | None:
    """Return the channel axis along which weights can be scaled, or None.

    It is an axis of the result if `output` is true, else of the data. Convolutions and dense layers can be scaled.
    Integer weights are left as they are: they cannot be divided exactly, and narrow ones would overflow.
    """
    dtypes = {tensor_type(expr).dtype for expr in (call, *call.args[:2])}
    if len(dtypes) != 1 or "float" not in dtypes.pop():
        return None
    if op_name(call) == "nn.dense":
        return 1 if len(data.shape) == 2 else None
    attrs = call.attrs
    if not isinstance(attrs, ConvAttrs) or not op_name(call).startswith("nn.conv") or "transpose" in op_name(call):
        return None
    layout = parse_layout((attrs.out_layout or attrs.data_layout) if output else attrs.data_layout)
    kernel = parse_layout(attrs.kernel_layout)
    is_blocked = layout.index("c") >= 0 or kernel.index("o") >= 0 or kernel.index("i") >= 0
    if is_blocked or (attrs.groups != 1 and not _is_depthwise(attrs, data)):
        return None
    return layout.index("C")


def _is_depthwise(attrs: ConvAttrs, data: TensorType) -> bool:
    """Return whether each input channel has exactly one output channel."""
    channels = data.shape[parse_layout(attrs.data_layout).index("C")]
    return attrs.groups == channels == attrs.channels


def scale_weight(call: Call, weight: Expr, scale: Expr, *, output: bool) -> Expr:
    """Return the weight scaled by a factor for each output or each input channel."""
    if not isinstance(call.attrs, ConvAttrs):
        return call_op("multiply", weight, along_axis(scale, 0 if output else 1, 2))
    kernel = parse_layout(call.attrs.kernel_layout)
    # The outputs of a depthwise convolution are its inputs.
    axis = kernel.index("O" if output or call.attrs.groups != 1 else "I")
    return call_op("multiply", weight, along_axis(scale, axis, kernel.rank))
