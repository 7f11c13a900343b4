"""Operators that broadcast a tensor to a larger shape, or sum it to a smaller one.

These are broadcast_to, collapse_sum_to, their `_like` variants, repeat and tile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import Call, Constant, Expr, const
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType
from apass.relay.op.define.arguments import Ints, computed_expr, static_ints
from apass.relay.op.define.attrs import InitOpAttrs
from apass.relay.op.define.dims import axis_of, broadcast_dims, dims_differ, product, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, one_dtype

__all__ = [
    "RepeatAttrs",
    "TileAttrs",
    "broadcast_to",
    "broadcast_to_like",
    "collapse_sum_like",
    "collapse_sum_to",
    "repeat",
    "tile",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatAttrs(Attrs):
    """The attributes of repeat."""

    repeats: Integer
    """How often each element is repeated."""
    axis: int | None = None
    """The axis of the repetition; None for the flattened data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileAttrs(Attrs):
    """The attributes of tile."""

    reps: tuple[int, ...]
    """How often the tensor is repeated along each axis, aligned at the last axis."""


def _check_broadcast(small: Sequence[Dim], large: Sequence[Dim]) -> None:
    """Raise ValueError if a tensor of shape `small` cannot be broadcast to `large`."""
    result = broadcast_dims(small, large)
    if len(result) != len(large) or any(map(dims_differ, result, large)):
        raise ValueError(f"{shape_text(small)} cannot be broadcast to {shape_text(large)}")


def _shape(attrs: InitOpAttrs) -> tuple[int, ...]:
    if attrs.shape is None:
        raise ValueError("the attribute shape is required")
    return attrs.shape


def _relate_broadcast_to(data: TensorType, attrs: InitOpAttrs) -> TensorType:
    _check_broadcast(data.shape, _shape(attrs))
    return TensorType(_shape(attrs), data.dtype)


def _broadcast_to(attrs: InitOpAttrs, data: Array) -> Array:
    return np.broadcast_to(data, _shape(attrs))


def _relate_broadcast_like(data: TensorType, broadcast_type: TensorType, attrs: None) -> TensorType:
    _check_broadcast(data.shape, broadcast_type.shape)
    return TensorType(broadcast_type.shape, one_dtype(data, broadcast_type))


def _broadcast_to_like(data: Array, broadcast_type: Array) -> Array:
    return np.broadcast_to(data, broadcast_type.shape)


def _relate_collapse_like(data: TensorType, collapse_type: TensorType, attrs: None) -> TensorType:
    _check_broadcast(collapse_type.shape, data.shape)
    return TensorType(collapse_type.shape, one_dtype(data, collapse_type))


def _collapse_sum_like(data: Array, collapse_type: Array) -> Array:
    return _collapsed(data, collapse_type.shape)


def _collapsed(data: Array, shape: Sequence[int]) -> Array:
    """Return the data summed over the axes that `shape` lacks, or has with size 1."""
    missing = data.ndim - len(shape)
    axes = [axis for axis in range(data.ndim) if axis < missing or shape[axis - missing] == 1]
    total = np.sum(data, tuple(axes), dtype=str(data.dtype), keepdims=True)
    return np.asarray(total).reshape(tuple(shape))


def _relate_collapse_to(data: TensorType, shape: TensorType, attrs: InitOpAttrs) -> TensorType:
    if attrs.shape is not None:
        _check_broadcast(attrs.shape, data.shape)
        return TensorType(attrs.shape, data.dtype)
    if len(shape.shape) != 1 or not isinstance(shape.shape[0], int):
        raise ValueError(f"the shape must be a vector of a known length, got {shape}")
    return TensorType([Any()] * shape.shape[0], data.dtype)


def _collapse_sum_to(attrs: InitOpAttrs, data: Array, shape: Array) -> Array:
    return _collapsed(data, shape.astype("int64").tolist())


def _relate_repeat(data: TensorType, attrs: RepeatAttrs) -> TensorType:
    if attrs.repeats < 1:
        raise ValueError(f"repeats must be 1 or more, got {attrs.repeats}")
    if attrs.axis is None:
        return TensorType((_times(product(data.shape), attrs.repeats),), data.dtype)
    shape: list[Dim] = list(data.shape)
    axis = axis_of(len(shape), attrs.axis)
    shape[axis] = _times(shape[axis], attrs.repeats)
    return TensorType(shape, data.dtype)


def _times(dim: Dim, count: int) -> Dim:
    return dim if count == 1 else dim * count


def _repeat(attrs: RepeatAttrs, data: Array) -> Array:
    return np.repeat(data, attrs.repeats, attrs.axis)


def _relate_tile(data: TensorType, attrs: TileAttrs) -> TensorType:
    if any(count < 1 for count in attrs.reps):
        raise ValueError(f"reps must be 1 or more, got {shape_text(attrs.reps)}")
    rank = max(len(data.shape), len(attrs.reps))
    shape = (*(1 for _ in range(rank - len(data.shape))), *data.shape)
    reps = (*(1 for _ in range(rank - len(attrs.reps))), *attrs.reps)
    return TensorType(map(_times, shape, reps), data.dtype)


def _tile(attrs: TileAttrs, data: Array) -> Array:
    return np.tile(data, attrs.reps)


_BROADCAST_TO = register_op(
    "broadcast_to",
    arguments=("data",),
    attrs_type=InitOpAttrs,
    relation=forward("broadcast_to", ("data",), _relate_broadcast_to),
    compute=_broadcast_to,
    pattern=OpPattern.BROADCAST,
    level=4,
    description="The tensor broadcast to a shape.",
)
_BROADCAST_TO_LIKE = register_op(
    "broadcast_to_like",
    arguments=("data", "broadcast_type"),
    relation=forward("broadcast_to_like", ("data", "broadcast_type"), _relate_broadcast_like),
    compute=_broadcast_to_like,
    pattern=OpPattern.BROADCAST,
    level=10,
    description="The tensor broadcast to the shape of another.",
)
_COLLAPSE_SUM_LIKE = register_op(
    "collapse_sum_like",
    arguments=("data", "collapse_type"),
    relation=forward("collapse_sum_like", ("data", "collapse_type"), _relate_collapse_like),
    compute=_collapse_sum_like,
    pattern=OpPattern.COMM_REDUCE,
    level=10,
    description="The tensor summed to the shape of another, which can be broadcast to the shape of the first.",
)
_COLLAPSE_SUM_TO = register_op(
    "collapse_sum_to",
    arguments=("data", "shape"),
    attrs_type=InitOpAttrs,
    relation=forward("collapse_sum_to", ("data", "shape"), _relate_collapse_to),
    compute=_collapse_sum_to,
    pattern=OpPattern.COMM_REDUCE,
    level=4,
    description="The tensor summed to a shape that can be broadcast to its own.",
)
_REPEAT = register_op(
    "repeat",
    arguments=("data",),
    attrs_type=RepeatAttrs,
    relation=forward("repeat", ("data",), _relate_repeat),
    compute=_repeat,
    pattern=OpPattern.BROADCAST,
    level=3,
    description="Each element repeated along an axis.",
)
_TILE = register_op(
    "tile",
    arguments=("data",),
    attrs_type=TileAttrs,
    relation=forward("tile", ("data",), _relate_tile),
    compute=_tile,
    pattern=OpPattern.BROADCAST,
    level=3,
    description="The whole tensor repeated along its axes.",
)


def broadcast_to(data: Expr, shape: Ints) -> Call:
    """Return the tensor broadcast to a shape."""
    expression = computed_expr(shape)
    if expression is not None:
        return call_op("dyn.broadcast_to", data, expression)
    return Call(_BROADCAST_TO, (data,), InitOpAttrs(shape=static_ints("broadcast_to", "shape", shape)))


def broadcast_to_like(data: Expr, broadcast_type: Expr) -> Call:
    """Return the tensor broadcast to the shape of another."""
    return Call(_BROADCAST_TO_LIKE, (data, broadcast_type))


def collapse_sum_like(data: Expr, collapse_type: Expr) -> Call:
    """Return the tensor summed to the shape of another.

    This is the gradient of broadcasting the other tensor to the shape of the first.
    """
    return Call(_COLLAPSE_SUM_LIKE, (data, collapse_type))


def collapse_sum_to(data: Expr, shape: Expr | Iterable[int]) -> Call:
    """Return the tensor summed to a shape.

    If the shape is an expression that is not a constant, the type of the result does not contain it.
    """
    expression = shape if isinstance(shape, Expr) else const(list(shape), "int32")
    static = static_ints("collapse_sum_to", "shape", expression) if isinstance(expression, Constant) else None
    return Call(_COLLAPSE_SUM_TO, (data, expression), InitOpAttrs(shape=static))


def repeat(data: Expr, repeats: int, axis: int | None) -> Call:
    """Return the tensor with each element repeated along `axis`; flattened for None."""
    return Call(_REPEAT, (data,), RepeatAttrs(repeats=repeats, axis=axis))


def tile(data: Expr, reps: Ints) -> Call:
    """Return the tensor repeated `reps[i]` times along axis i.

    If the tensor has fewer dimensions than `reps` has numbers, or the reverse, the missing leading ones count as 1.
    """
    expression = computed_expr(reps)
    if expression is not None:
        return call_op("dyn.tile", data, expression)
    return Call(_TILE, (data,), TileAttrs(reps=static_ints("tile", "reps", reps)))
