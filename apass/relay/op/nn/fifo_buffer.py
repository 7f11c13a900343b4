"""nn.fifo_buffer: a window over a stream."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.dims import clash
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import axis_in, tensors, with_rank
from apass.relay.ty import Type

__all__ = ["FIFOBufferAttrs", "fifo_buffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FIFOBufferAttrs(Attrs):
    """The attributes of nn.fifo_buffer."""

    axis: int = 0
    """The axis along which data comes in."""


def _relation(types: Sequence[Type], attrs: FIFOBufferAttrs) -> Sequence[Type | None] | None:
    op = "nn.fifo_buffer"
    data, buffer, _ = tensors(op, types)
    if data is None or buffer is None:
        return None
    axis = axis_in(op, with_rank(op, "the data", data, len(buffer.shape)), attrs.axis)
    others = [pair for place, pair in enumerate(zip(data.shape, buffer.shape, strict=True)) if place != axis]
    if any(clash(*pair) for pair in others) or data.dtype != buffer.dtype:
        raise TypeInferenceError(f"{op}: the data {data} and the buffer {buffer} may differ in axis {axis} only")
    new, kept = data.shape[axis], buffer.shape[axis]
    if isinstance(new, int) and isinstance(kept, int) and new > kept:
        raise TypeInferenceError(f"{op}: the buffer {buffer} cannot take {new} elements along axis {axis} at once")
    return [None, None, buffer]


def _compute(attrs: FIFOBufferAttrs, data: Array, buffer: Array) -> Array:
    both = np.concatenate((buffer, data), axis=attrs.axis)
    return np.moveaxis(np.moveaxis(both, attrs.axis, 0)[data.shape[attrs.axis] :], 0, attrs.axis)


_FIFO_BUFFER = register_op(
    "nn.fifo_buffer",
    arguments=("data", "buffer"),
    attrs_type=FIFOBufferAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.OPAQUE,
    level=10,
    description="The buffer with the data appended along an axis, and as much dropped at its start.",
)


def fifo_buffer(data: Expr, buffer: Expr, axis: int) -> Call:
    """Return the buffer after the data has been appended along an axis and the oldest elements dropped."""
    return Call(_FIFO_BUFFER, (data, buffer), FIFOBufferAttrs(axis=axis))
