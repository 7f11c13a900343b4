"""Sequences of different lengths in one tensor: reverse_sequence, sequence_mask."""

from dataclasses import dataclass

import numpy as np

from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.dims import axis_of, clash
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward
from apass.relay.ty import TensorType

__all__ = ["ReverseSequenceAttrs", "SequenceMaskAttrs", "reverse_sequence", "sequence_mask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseSequenceAttrs(Attrs):
    """The attributes of reverse_sequence."""

    seq_axis: int = 1
    """The axis along which the sequences lie."""
    batch_axis: int = 0
    """The axis along which there is one sequence after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceMaskAttrs(Attrs):
    """The attributes of sequence_mask."""

    mask_value: float = 0.0
    """What stands behind the end of a sequence."""
    axis: int = 0
    """The axis along which the sequences lie, 0 or 1; the other is that of the batch."""


def _check_lengths(data: TensorType, lengths: TensorType, batch_axis: int) -> None:
    if len(lengths.shape) != 1 or clash(lengths.shape[0], data.shape[batch_axis]):
        raise ValueError(f"a length is wanted for each place of axis {batch_axis} of {data}, but there is a {lengths}")


def _relate_reverse(data: TensorType, seq_lengths: TensorType, attrs: ReverseSequenceAttrs) -> TensorType:
    rank = len(data.shape)
    batch = axis_of(rank, attrs.batch_axis)
    if axis_of(rank, attrs.seq_axis) == batch:
        raise ValueError(f"seq_axis and batch_axis are both {batch}")
    _check_lengths(data, seq_lengths, batch)
    return data


def _reverse_sequence(attrs: ReverseSequenceAttrs, data: Array, seq_lengths: Array) -> Array:
    sets = np.moveaxis(data, (attrs.batch_axis, attrs.seq_axis), (0, 1))
    size = sets.shape[1]
    lengths = np.clip(seq_lengths.astype("int64"), 1, size)[:, np.newaxis]
    place = np.arange(size, dtype="int64")[np.newaxis]
    source = np.where(place < lengths, lengths - 1 - place, place)
    made = np.asarray(sets[np.arange(len(sets), dtype="int64")[:, np.newaxis], source])
    return np.moveaxis(made, (0, 1), (attrs.batch_axis, attrs.seq_axis))


def _relate_mask(data: TensorType, valid_length: TensorType, attrs: SequenceMaskAttrs) -> TensorType:
    if attrs.axis not in (0, 1) or len(data.shape) < 2:
        raise ValueError(f"axis is {attrs.axis} and the data a {data}; axis must be 0 or 1, and both axes be there")
    _check_lengths(data, valid_length, 1 - attrs.axis)
    return data


def _sequence_mask(attrs: SequenceMaskAttrs, data: Array, valid_length: Array) -> Array:
    place = np.expand_dims(np.arange(data.shape[attrs.axis], dtype="int64"), 1 - attrs.axis)
    valid = place < np.expand_dims(valid_length.astype("int64"), attrs.axis)
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
    description="The tensor with what is behind the end of each sequence replaced.",
)


def reverse_sequence(data: Expr, seq_lengths: Expr, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """Return the tensor with the first elements along `seq_axis` reversed, `seq_lengths[i]` for place i of the batch.

    Lengths below 1 count as 1, those beyond the axis as its size.
    """
    attrs = ReverseSequenceAttrs(seq_axis=seq_axis, batch_axis=batch_axis)
    return Call(_REVERSE_SEQUENCE, (data, seq_lengths), attrs)


def sequence_mask(data: Expr, valid_length: Expr, mask_value: float = 0, axis: int = 0) -> Call:
    """Return the tensor with `mask_value` for all but the first `valid_length[i]` elements of sequence i."""
    attrs = SequenceMaskAttrs(mask_value=float(mask_value), axis=axis)
    return Call(_SEQUENCE_MASK, (data, valid_length), attrs)
