"""Einstein summation, as batched matrix products."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.ir.expr import Constant, Expr
from apass.relay.op import nn

__all__ = ["TABLE"]

DOTS: Final = "0123456789"
"""Labels of the dimensions of an ellipsis, aligned at the last label."""


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor whose axes have labels."""

    data: Expr
    """The tensor."""
    labels: str
    """One label for each axis."""


def einsum(node: Node) -> Expr:
    """Return the sums of products that the equation describes."""
    operands = node.present_inputs()
    equation = node.text("equation").replace(" ", "")
    inputs, output = _parsed(node, equation, [node.rank(operand) for operand in operands])
    terms = [_without_repeats(node, Term(*pair)) for pair in zip(operands, inputs, strict=True)]
    result = terms[0]
    for index, term in enumerate(terms[1:], start=1):
        needed = output + "".join(later.labels for later in terms[index + 1 :])
        result = _contracted(node, result, term, needed)
    result = _summed(result, output)
    order = [result.labels.index(label) for label in output]
    return result.data if order == sorted(order) else op.transpose(result.data, axes=order)


def _parsed(node: Node, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the labels of the operands and of the result."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise node.unsupported(f"equation {equation!r} must have {len(ranks)} operands")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    inputs = [term.replace("...", DOTS[len(DOTS) - count :]) for term, count in zip(terms, hidden, strict=True)]
    dots = DOTS[len(DOTS) - max(hidden, default=0) :]
    if arrow:
        return inputs, right.replace("...", dots)
    # Without an arrow, the output has the ellipsis and the labels that occur once, in alphabetical order.
    letters = sorted(label for label in set(left) if label.isalpha())
    return inputs, dots + "".join(label for label in letters if left.count(label) == 1)


def _without_repeats(node: Node, term: Term) -> Term:
    """Return a term in which axes of the same label are replaced by their diagonal."""
    data, labels = term.data, term.labels
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first, last = labels.index(label), labels.rindex(label)
            shape = [1] * len(labels)
            shape[first] = shape[last] = node.static_dim(data, first)
            mask = Constant(np.eye(shape[first], dtype=bool).reshape(shape))
            data = op.sum(op.where(mask, data, node.constant(0, data)), axis=(last,))
            labels = labels[:last] + labels[last + 1 :]
    return Term(data, labels)


def _summed(term: Term, needed: str) -> Term:
    """Return a term summed over the axes that are not needed."""
    axes = tuple(axis for axis, label in enumerate(term.labels) if label not in needed)
    rest = "".join(label for label in term.labels if label in needed)
    return Term(op.sum(term.data, axis=axes), rest) if axes else term


def _contracted(node: Node, left: Term, right: Term, needed: str) -> Term:
    """Return the product of two terms, summed over unneeded labels that they share."""
    left, right = _summed(left, needed + right.labels), _summed(right, needed + left.labels)
    both = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in both if label in needed)
    inner = "".join(label for label in both if label not in needed)
    rows = "".join(label for label in left.labels if label not in both)
    columns = "".join(label for label in right.labels if label not in both)
    sizes = _sizes(node, (left, right))
    first, second = (
        _stacked(node, term, [batch, outer, inner], sizes) for term, outer in ((left, rows), (right, columns))
    )
    labels = batch + rows + columns
    return Term(op.reshape(nn.batch_matmul(first, second), [sizes[label] for label in labels]), labels)


def _sizes(node: Node, terms: Iterable[Term]) -> dict[str, int]:
    """Return the sizes of the labels; a broadcast dimension has the larger size."""
    sizes: dict[str, int] = {}
    for term in terms:
        for label, size in zip(term.labels, node.static_shape(term.data), strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return sizes


def _stacked(node: Node, term: Term, groups: Sequence[str], sizes: dict[str, int]) -> Expr:
    """Return a term with the axes of each group of labels merged into one."""
    ordered = "".join(groups)
    order = [term.labels.index(label) for label in ordered]
    data = term.data if order == sorted(order) else op.transpose(term.data, axes=order)
    shape = tuple(sizes[label] for label in ordered)
    full = data if node.static_shape(data) == shape else op.broadcast_to(data, shape)
    return op.reshape(full, [prod(sizes[label] for label in group) for group in groups])


TABLE: Final[Table] = {("", "Einsum", 12): einsum}
"""The converters of this module."""
