"""`get_total_mac_number`: how many multiply-accumulates the convolutions and matrix products of a program take."""

import math
from collections.abc import Callable, Mapping
from typing import Final, cast

from apass.relay.expr import Call, Expr, Op
from apass.relay.ir.post_order import post_order
from apass.relay.ty import TensorType

__all__ = ["get_total_mac_number"]


def get_total_mac_number(expr: Expr) -> int:
    """Return the number of multiply-accumulates in the calls of conv2d, conv2d_transpose, dense and batch_matmul.

    Calls that have no types count for nothing, as in TVM: run InferType first.

    Raises:
        ValueError: if a call has a dimension that is not known, or channels that its groups do not divide.

    """
    calls = (node for node in post_order(expr) if isinstance(node, Call) and node.checked_type_ is not None)
    return sum(_COUNTS[one.op.name](one) for one in calls if isinstance(one.op, Op) and one.op.name in _COUNTS)


def _shape(expr: Expr) -> tuple[int, ...]:
    ty = expr.checked_type
    if not isinstance(ty, TensorType) or not ty.is_static:
        raise ValueError(f"the multiply-accumulates on a {ty} cannot be counted: every dimension must be known")
    return ty.concrete_shape


def _attribute(call: Call, name: str) -> object:
    return None if call.attrs is None else call.attrs[name]


def _convolution(call: Call) -> int:
    """Each element of the result takes one for each element of the kernel, and for each input channel of its group."""
    layout = str(_attribute(call, "data_layout"))
    axes = [axis for axis in layout if axis.isalpha()]
    data = _shape(call.args[0])
    channels = math.prod(data[place] for place, axis in enumerate(axes) if axis in "Cc")
    groups = _attribute(call, "groups")
    if not isinstance(groups, int) or channels % groups:
        raise ValueError(f"{channels} input channels cannot be divided into {groups} groups")
    return math.prod(_shape(call)) * math.prod(_kernel_size(call)) * (channels // groups)


def _kernel_size(call: Call) -> tuple[int, ...]:
    """Return the height and width of a kernel: the attribute, or what its weights have."""
    given = _attribute(call, "kernel_size")
    if isinstance(given, tuple):
        return cast("tuple[int, ...]", given)
    axes = [axis for axis in str(_attribute(call, "kernel_layout")) if axis.isalpha()]
    weight = _shape(call.args[1])
    return tuple(weight[axes.index(axis)] for axis in "HW")


def _dense(call: Call) -> int:
    """Each element of the result takes one for each element of a row."""
    return math.prod(_shape(call)) * _shape(call.args[0])[-1]


def _batch_matmul(call: Call) -> int:
    """Each element of the result takes one for each element of a row, or column, of the first operand."""
    transposed = bool(_attribute(call, "transpose_a"))
    return math.prod(_shape(call)) * _shape(call.args[0])[-2 if transposed else -1]


_COUNTS: Final[Mapping[str, Callable[[Call], int]]] = {
    "nn.conv2d": _convolution,
    "nn.conv2d_transpose": _convolution,
    "nn.dense": _dense,
    "nn.batch_matmul": _batch_matmul,
}
