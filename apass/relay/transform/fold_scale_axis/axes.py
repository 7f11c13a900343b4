"""What folding a scale into the weights, forward and backward, has in common."""

from dataclasses import dataclass

import numpy as np

from apass.relay.expr import Call, Constant, Expr
from apass.relay.ir.calls import along_axis, call_op, op_name, tensor_type
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.nn.conv.conv import ConvAttrs
from apass.relay.ty import TensorType

__all__ = ["Demand", "is_nonzero", "is_positive", "scale_weight", "scaled_axis", "squeeze_to_axis"]

_MOVES = frozenset({"expand_dims", "reshape", "transpose", "squeeze", "repeat"})
"""Operators that only move elements."""


@dataclass(frozen=True, slots=True)
class Demand:
    """A place where a factor for each slice along an axis can be taken up."""

    axis: int
    """The axis."""
    positive: bool = False
    """Whether only positive factors can be: there is a relu between, or a maximum."""
    nonzero: bool = False
    """Whether the factors are divided by, so that none may be zero."""

    def takes(self, scale: Expr) -> bool:
        """Tell whether a scale is known to be such."""
        if self.positive:
            return is_positive(scale)
        return not self.nonzero or is_nonzero(scale)


def is_positive(expr: Expr) -> bool:
    """Tell whether an expression is known to have positive elements only: a constant, perhaps reshaped."""
    value = _constant_of(expr)
    return value is not None and bool(np.greater(value.data.numpy(), 0).all())


def is_nonzero(expr: Expr) -> bool:
    """Tell whether an expression is known to have no element that is zero."""
    value = _constant_of(expr)
    return value is not None and bool((value.data.numpy() != 0).all())


def _constant_of(expr: Expr) -> Constant | None:
    while isinstance(expr, Call) and op_name(expr) in _MOVES:
        expr = expr.args[0]
    return expr if isinstance(expr, Constant) else None


def squeeze_to_axis(data: TensorType, factor: TensorType, axis: int, value: Expr) -> Expr | None:
    """Return `value`, of type `factor`, as a vector if it broadcasts against `data` along nothing but `axis`.

    Return None if it does not. TVM's `MatchBroadcastToLeftAxes`.
    """
    before = len(data.shape) - len(factor.shape)
    place = axis - before
    if before < 0 or place < 0 or factor.shape[place] != data.shape[axis]:
        return None
    others = [index for index in range(len(factor.shape)) if index != place]
    if any(factor.shape[index] != 1 for index in others):
        return None
    return call_op("squeeze", value, axis=tuple(others)) if others else value


def scaled_axis(call: Call, data: TensorType, *, output: bool) -> int | None:
    """Return the channel axis of the result, or of the data, of a convolution or dense whose weights can be scaled.

    Integers are left alone: they cannot be divided without a rest, and narrow ones overflow elsewhere than in the sum.
    """
    dtypes = {tensor_type(one).dtype for one in (call, *call.args[:2])}
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
    """Tell whether each input channel has one output channel of its own."""
    channels = data.shape[parse_layout(attrs.data_layout).index("C")]
    return attrs.groups == channels == attrs.channels


def scale_weight(call: Call, weight: Expr, scale: Expr, *, output: bool) -> Expr:
    """Return the weight scaled by a factor for each output, or each input, channel."""
    if not isinstance(call.attrs, ConvAttrs):
        return call_op("multiply", weight, along_axis(scale, 0 if output else 1, 2))
    kernel = parse_layout(call.attrs.kernel_layout)
    # The outputs of a depthwise convolution are its inputs.
    axis = kernel.index("O" if output or call.attrs.groups != 1 else "I")
    return call_op("multiply", weight, along_axis(scale, axis, kernel.rank))
