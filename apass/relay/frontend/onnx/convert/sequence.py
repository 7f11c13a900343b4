"""Sequences, represented as tuples of a length known at import."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.convert.reshape import identity
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr, Tuple, TupleGetItem
from apass.relay.ir.ty import TupleType

__all__ = ["TABLE"]


def fields_of(node: Node, sequence: Expr) -> list[Expr]:
    """Return the tensors of a sequence."""
    if isinstance(sequence, Tuple):
        return list(sequence.fields)
    ty = node.facts.type_of(sequence)
    if not isinstance(ty, TupleType):
        raise node.unsupported(f"the input must be a sequence, got a value of type {ty}")
    return [TupleGetItem(sequence, index) for index in range(len(ty.fields))]


def position_of(node: Node, index: int, default: int, count: int) -> int:
    """Return an input that is a position in a sequence, as a non-negative number."""
    position = (node.ints(index) or (default,))[0]
    if not -count <= position < max(count, 1):
        raise node.unsupported(f"position {position} is out of range for {count} positions")
    return position + count if position < 0 else position


def construct(node: Node) -> Expr:
    """Return a sequence of tensors."""
    return Tuple(node.present_inputs())


def at(node: Node) -> Expr:
    """Return the tensor at a position."""
    fields = fields_of(node, node[0])
    return fields[position_of(node, 1, 0, len(fields))]


def insert(node: Node) -> Expr:
    """Return a sequence with a tensor inserted at a position, by default at the end."""
    fields = fields_of(node, node[0])
    count = len(fields)
    position = (node.ints(2) or (count,))[0] if node.get(2) is not None else count
    if not -count <= position <= count:
        raise node.unsupported(f"position {position} is out of range for a sequence of {count} tensors")
    return Tuple([*fields[:position], node[1], *fields[position:]])


def erase(node: Node) -> Expr:
    """Return a sequence without the tensor at a position, by default the last."""
    fields = fields_of(node, node[0])
    position = position_of(node, 1, -1, len(fields))
    return Tuple([*fields[:position], *fields[position + 1 :]])


def length(node: Node) -> Expr:
    """Return the number of tensors."""
    return Constant(np.asarray(len(fields_of(node, node[0])), "int64"))


def concat(node: Node) -> Expr:
    """Return the concatenation of a sequence along an existing or a new axis."""
    fields, axis = fields_of(node, node[0]), node.integer("axis")
    if node.integer("new_axis", 0):
        return op.stack(fields, axis=node.normal_axis(axis, node.rank(fields[0]) + 1))
    return op.concatenate(fields, axis=node.normal_axis(axis, node.rank(fields[0])))


def split(node: Node) -> Expr:
    """Return a tensor split into a sequence along an axis.

    The parts have given sizes, one given size, or the size 1.
    """
    data = node[0]
    axis = node.axis(data, 0)
    sizes = node.ints(1)
    is_one_size = sizes is not None and node.rank(node[1]) == 0
    ends = _ends(node.static_dim(data, axis), sizes or (1,), is_one_size or sizes is None)
    begins = [0, *ends[:-1]]
    pieces = [sliced(node, data, [begin], [end], [axis], None) for begin, end in zip(begins, ends, strict=True)]
    # keepdims has an effect only if no sizes are given.
    is_flat = sizes is None and not node.integer("keepdims", 1)
    return Tuple([op.squeeze(piece, axis=[axis]) if is_flat else piece for piece in pieces])


def _ends(dim: int, sizes: Sequence[int], is_one_size: bool) -> list[int]:
    """Return the ends of the parts of a dimension.

    With `is_one_size`, all parts but the last have the first size.
    """
    return (
        [min(end, dim) for end in range(sizes[0], dim + sizes[0], sizes[0])] if is_one_size else list(accumulate(sizes))
    )


def has_element(node: Node) -> Expr:
    """Return whether there is an input; an imported value always exists."""
    return Constant(np.asarray(node.get(0) is not None))


TABLE: Final[Table] = {
    ("", "ConcatFromSequence", 11): concat,
    ("", "Optional", 15): identity,
    ("", "OptionalGetElement", 15): identity,
    ("", "OptionalHasElement", 15): has_element,
    ("", "SequenceAt", 11): at,
    ("", "SequenceConstruct", 11): construct,
    ("", "SequenceEmpty", 11): construct,
    ("", "SequenceErase", 11): erase,
    ("", "SequenceInsert", 11): insert,
    ("", "SequenceLength", 11): length,
    ("", "SplitToSequence", 11): split,
}
"""The converters of this module."""
