"""nn.fifo_buffer: a sliding window over a stream of data."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Type
from apass.relay.op.define.dims import dims_differ
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import axis_in, tensors, with_rank

__all__ = ["FIFOBufferAttrs", "fifo_buffer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FIFOBufferAttrs(Attrs):
    """The attributes of nn.fifo_buffer."""

    axis: int = 0
    """The axis that data is appended along."""


def _relation(types: Sequence[Type], attrs: FIFOBufferAttrs) -> Sequence[Type | None] | None:
    op = "nn.fifo_buffer"
    data, buffer, _ = tensors(op, types)
    if data is None or buffer is None:
        return None
    axis = axis_in(op, with_rank(op, "the data", data, len(buffer.shape)), attrs.axis)
    others = [pair for dim, pair in enumerate(zip(data.shape, buffer.shape, strict=True)) if dim != axis]
    if any(dims_differ(*pair) for pair in others) or data.dtype != buffer.dtype:
        raise TypeInferenceError(f"{op}: data and buffer may differ only in axis {axis}, got {data} and {buffer}")
    added, size = data.shape[axis], buffer.shape[axis]
    if isinstance(added, int) and isinstance(size, int) and added > size:
        raise TypeInferenceError(f"{op}: the data may have at most {size} elements along axis {axis}, got {added}")
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
    description="The buffer with the data appended along an axis and its oldest elements removed.",
)


def fifo_buffer(data: Expr, buffer: Expr, axis: int) -> Call:
    """Return the buffer with the data appended along an axis.

    The oldest elements are removed, so that the size stays the same.
    """
    return Call(_FIFO_BUFFER, (data, buffer), FIFOBufferAttrs(axis=axis))
