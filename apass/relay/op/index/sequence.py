"""Sequences of different lengths in one tensor: reverse_sequence, sequence_mask."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.dims import axis_of, dims_differ
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward

__all__ = ["ReverseSequenceAttrs", "SequenceMaskAttrs", "reverse_sequence", "sequence_mask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseSequenceAttrs(Attrs):
    """The attributes of reverse_sequence."""

    seq_axis: Integer = 1
    """The axis of the elements of a sequence."""
    batch_axis: Integer = 0
    """The axis of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMaskAttrs(Attrs):
    """The attributes of sequence_mask."""

    mask_value: float = 0.0
    """The value of the elements after the end of a sequence."""
    axis: int = 0
    """The axis of the elements of a sequence, 0 or 1; the other one is that of the batch."""


def _check_lengths(data: TensorType, lengths: TensorType, batch_axis: int) -> None:
    if len(lengths.shape) != 1 or dims_differ(lengths.shape[0], data.shape[batch_axis]):
        raise ValueError(f"expected a length for each position of axis {batch_axis} of {data}, got {lengths}")


def _relate_reverse(data: TensorType, seq_lengths: TensorType, attrs: ReverseSequenceAttrs) -> TensorType:
    rank = len(data.shape)
    batch = axis_of(rank, attrs.batch_axis)
    if axis_of(rank, attrs.seq_axis) == batch:
        raise ValueError(f"seq_axis and batch_axis must differ, got {batch} for both")
    _check_lengths(data, seq_lengths, batch)
    return data


def _reverse_sequence(attrs: ReverseSequenceAttrs, data: Array, seq_lengths: Array) -> Array:
    sequences = np.moveaxis(data, (attrs.batch_axis, attrs.seq_axis), (0, 1))
    size = sequences.shape[1]
    lengths = np.clip(seq_lengths.astype("int64"), 1, size)[:, np.newaxis]
    position = np.arange(size, dtype="int64")[np.newaxis]
    source = np.where(position < lengths, lengths - 1 - position, position)
    result = np.asarray(sequences[np.arange(len(sequences), dtype="int64")[:, np.newaxis], source])
    return np.moveaxis(result, (0, 1), (attrs.batch_axis, attrs.seq_axis))


def _relate_mask(data: TensorType, valid_length: TensorType, attrs: SequenceMaskAttrs) -> TensorType:
    if attrs.axis not in (0, 1) or len(data.shape) < 2:
        raise ValueError(f"axis must be 0 or 1 and the data have both axes, got axis {attrs.axis} and {data}")
    _check_lengths(data, valid_length, 1 - attrs.axis)
    return data


def _sequence_mask(attrs: SequenceMaskAttrs, data: Array, valid_length: Array) -> Array:
    position = np.expand_dims(np.arange(data.shape[attrs.axis], dtype="int64"), 1 - attrs.axis)
    valid = position < np.expand_dims(valid_length.astype("int64"), attrs.axis)
    valid = valid.reshape(*data.shape[:2], *(1 for _ in data.shape[2:]))
    return np.where(valid, data, np.asarray(attrs.mask_value).astype(data.dtype))


_REVERSE_SEQUENCE = register_op(
    "reverse_sequence",
    arguments=("data", "seq_lengths"),
    attrs_type=ReverseSequenceAttrs,
    relation=forward("reverse_sequence", ("data", "seq_lengths"), _relate_reverse),
    compute=_reverse_sequence,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The tensor with the first elements of each sequence reversed.",
)
_SEQUENCE_MASK = register_op(
    "sequence_mask",
    arguments=("data", "valid_length"),
    attrs_type=SequenceMaskAttrs,
    relation=forward("sequence_mask", ("data", "valid_length"), _relate_mask),
    compute=_sequence_mask,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The tensor with the elements after the end of each sequence replaced.",
)


def reverse_sequence(data: Expr, seq_lengths: Expr, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """Return the tensor with the first `seq_lengths[i]` of sequence i reversed.

    The sequences are along `seq_axis`, one for each position of `batch_axis`. Lengths are limited to at least 1 and at
    most the size of the axis.
    """
    attrs = ReverseSequenceAttrs(seq_axis=seq_axis, batch_axis=batch_axis)
    return Call(_REVERSE_SEQUENCE, (data, seq_lengths), attrs)


def sequence_mask(data: Expr, valid_length: Expr, mask_value: float = 0, axis: int = 0) -> Call:
    """Return the tensor with `mask_value` after the end of each sequence.

    Sequence i consists of its first `valid_length[i]` elements.
    """
    attrs = SequenceMaskAttrs(mask_value=float(mask_value), axis=axis)
    return Call(_SEQUENCE_MASK, (data, valid_length), attrs)
