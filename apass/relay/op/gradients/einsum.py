"""The gradient of einsum: einsum with other labels."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from string import ascii_letters
from typing import TypeAlias

import numpy as np

from apass.relay.ir.calls import attrs_of, tensor_type
from apass.relay.ir.expr import Call, Expr, Tuple, TupleGetItem, const
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.gradients.support import fields_of, static_shape
from apass.relay.op.reduction.einsum import EinsumAttrs, einsum, explicit_terms
from apass.relay.op.shape.broadcast import collapse_sum_like

__all__: list[str] = []

Operand: TypeAlias = tuple[str, TupleGetItem]
"""The labels of the axes of a tensor, and the tensor."""


@register_gradient("einsum")
def _einsum(orig: Call, grad: Expr) -> Sequence[Expr]:
    fields = fields_of(orig)
    shapes = [static_shape("einsum", field) for field in fields]
    *terms, output = explicit_terms(attrs_of(orig, EinsumAttrs).equation, shapes)
    operands = list(zip(terms, fields, strict=True))
    sizes: dict[str, int] = {}
    for letter, size in chain.from_iterable(map(_axes, operands)):
        sizes[letter] = max(size, sizes.get(letter, 1))
    slopes = [
        _slope(operand, (output, grad), [*operands[:index], *operands[index + 1 :]], sizes)
        for index, operand in enumerate(operands)
    ]
    return [Tuple(slopes)]


def _axes(operand: Operand) -> Iterator[tuple[str, int]]:
    """Return the label and the size of each axis."""
    term, field = operand
    return zip(term, static_shape("einsum", field), strict=True)


def _slope(operand: Operand, grad: tuple[str, Expr], others: Sequence[Operand], sizes: Mapping[str, int]) -> Expr:
    """Return the gradient of a tensor: a product with the others."""
    term, field = operand
    dtype, unused = tensor_type(field).dtype, iter(sorted({*ascii_letters} - {*sizes}))
    factors: list[tuple[str, Expr]] = [grad, *others]
    known = {*grad[0]}
    # An axis of one element is broadcast.
    known.update(letter for other in others for letter, size in _axes(other) if size == sizes[letter])
    labels = ""
    for letter in term:
        label = letter
        if letter in labels:
            # Only the elements with equal positions along both axes have a gradient.
            label = next(unused)
            factors.append((letter + label, const(np.eye(sizes[letter]), dtype)))
            known |= {letter, label}
        labels += label
    factors += [(letter, const(np.ones(sizes[letter]), dtype)) for letter in labels if letter not in known]
    slope = einsum([tensor for _, tensor in factors], f"{','.join(part for part, _ in factors)}->{labels}")
    is_broadcast = any(size != sizes[letter] for letter, size in _axes(operand))
    return collapse_sum_like(slope, field) if is_broadcast else slope
