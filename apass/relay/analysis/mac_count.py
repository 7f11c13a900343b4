"""`get_total_mac_number`: multiply-accumulates of convolutions and products."""

import math
from collections.abc import Callable, Mapping
from typing import Final, cast

from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType

__all__ = ["get_total_mac_number"]


def get_total_mac_number(expr: Expr) -> int:
    """Return the number of multiply-accumulates of an expression.

    Counted operators are conv2d, conv2d_transpose, dense and batch_matmul.

    Calls without types count as zero, as in TVM: run InferType first.

    Raises:
        ValueError: if a call has a dynamic dimension, or if its groups do not divide its channels.

    """
    calls = (node for node in post_order(expr) if isinstance(node, Call) and node.checked_type_ is not None)
    return sum(_COUNTS[call.op.name](call) for call in calls if isinstance(call.op, Op) and call.op.name in _COUNTS)


def _shape(expr: Expr) -> tuple[int, ...]:
    ty = expr.checked_type
    if not isinstance(ty, TensorType) or not ty.is_static:
        raise ValueError(f"cannot count the multiply-accumulates of {ty}: every dimension must be static")
    return ty.concrete_shape


def _attribute(call: Call, name: str) -> object:
    return None if call.attrs is None else call.attrs[name]


def _convolution(call: Call) -> int:
    """Return result elements * kernel elements * input channels of a group."""
    layout = str(_attribute(call, "data_layout"))
    axes = [axis for axis in layout if axis.isalpha()]
    data = _shape(call.args[0])
    # A blocked layout such as NCHW4c has two channel axes, C and c.
    channels = math.prod(data[index] for index, axis in enumerate(axes) if axis in "Cc")
    groups = _attribute(call, "groups")
    if not isinstance(groups, int) or channels % groups:
        raise ValueError(f"groups must divide the {channels} input channels, got {groups}")
    return math.prod(_shape(call)) * math.prod(_kernel_size(call)) * (channels // groups)


def _kernel_size(call: Call) -> tuple[int, ...]:
    """Return the kernel size: the attribute, or else the shape of the weights."""
    size = _attribute(call, "kernel_size")
    if isinstance(size, tuple):
        return cast("tuple[int, ...]", size)
    axes = [axis for axis in str(_attribute(call, "kernel_layout")) if axis.isalpha()]
    weight = _shape(call.args[1])
    return tuple(weight[axes.index(axis)] for axis in "HW")


def _dense(call: Call) -> int:
    """Return result elements * length of an input row."""
    return math.prod(_shape(call)) * _shape(call.args[0])[-1]


def _batch_matmul(call: Call) -> int:
    """Return result elements * length of the reduced axis."""
    transposed = bool(_attribute(call, "transpose_a"))
    return math.prod(_shape(call)) * _shape(call.args[0])[-2 if transposed else -1]


_COUNTS: Final[Mapping[str, Callable[[Call], int]]] = {
    "nn.conv2d": _convolution,
    "nn.conv2d_transpose": _convolution,
    "nn.dense": _dense,
    "nn.batch_matmul": _batch_matmul,
}
