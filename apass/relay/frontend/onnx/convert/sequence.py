"""Sequences, as tuples: how many tensors they hold, and in which places, has to be known."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.expr import Constant, Expr, Tuple, TupleGetItem
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.convert.reshape import identity
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ty import TupleType

__all__ = ["TABLE"]


def fields_of(node: Node, sequence: Expr) -> list[Expr]:
    """Return the tensors of a sequence."""
    if isinstance(sequence, Tuple):
        return list(sequence.fields)
    ty = node.facts.type_of(sequence)
    if not isinstance(ty, TupleType):
        raise node.unsupported(f"its input is no sequence, but of type {ty}")
    return [TupleGetItem(sequence, place) for place in range(len(ty.fields))]


def place_of(node: Node, index: int, default: int, count: int) -> int:
    """Return a place among `count` that is an input, counted from the front."""
    place = (node.ints(index) or (default,))[0]
    if not -count <= place < max(count, 1):
        raise node.unsupported(f"it asks for place {place} of {count}")
    return place + count if place < 0 else place


def construct(node: Node) -> Expr:
    """Return a sequence of tensors."""
    return Tuple(node.given())


def at(node: Node) -> Expr:
    """Return the tensor in a place."""
    fields = fields_of(node, node[0])
    return fields[place_of(node, 1, 0, len(fields))]


def insert(node: Node) -> Expr:
    """Return a sequence with a tensor put in before a place, or at the end."""
    fields = fields_of(node, node[0])
    # The place behind the last one is allowed as well.
    place = place_of(node, 2, len(fields), len(fields) + 1) if node.get(2) is not None else len(fields)
    return Tuple([*fields[:place], node[1], *fields[place:]])


def erase(node: Node) -> Expr:
    """Return a sequence without the tensor in a place, or without the last one."""
    fields = fields_of(node, node[0])
    place = place_of(node, 1, -1, len(fields))
    return Tuple([*fields[:place], *fields[place + 1 :]])


def length(node: Node) -> Expr:
    """Return the number of tensors."""
    return Constant(np.asarray(len(fields_of(node, node[0])), "int64"))


def concat(node: Node) -> Expr:
    """Return the tensors of a sequence put one behind another, along an axis that they have or a new one."""
    fields, axis = fields_of(node, node[0]), node.integer("axis")
    if node.integer("new_axis", 0):
        return op.stack(fields, axis=node.normal_axis(axis, node.rank(fields[0]) + 1))
    return op.concatenate(fields, axis=node.normal_axis(axis, node.rank(fields[0])))


def split(node: Node) -> Expr:
    """Return a tensor cut into a sequence along an axis: into pieces of given sizes, of one size, or of 1."""
    data = node[0]
    axis = node.axis(data, 0)
    given = node.ints(1)
    is_one_size = given is not None and node.rank(node[1]) == 0
    ends = _ends(node.static_dim(data, axis), given or (1,), is_one_size or given is None)
    begins = [0, *ends[:-1]]
    pieces = [sliced(node, data, [begin], [end], [axis], None) for begin, end in zip(begins, ends, strict=True)]
    is_flat = given is None and not node.integer("keepdims", 1)
    return Tuple([op.squeeze(one, axis=[axis]) if is_flat else one for one in pieces])


def _ends(dim: int, sizes: Sequence[int], is_one_size: bool) -> list[int]:
    """Return where pieces of a dimension end: of the sizes, or all of the first one but for the last piece."""
    return (
        [min(end, dim) for end in range(sizes[0], dim + sizes[0], sizes[0])] if is_one_size else list(accumulate(sizes))
    )


def has_element(node: Node) -> Expr:
    """Return whether there is an input: what is imported is there."""
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
