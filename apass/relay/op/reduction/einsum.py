"""einsum: sums of products over labelled axes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_letters

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, TupleWrapper
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType
from apass.relay.op.define.arguments import tuple_of
from apass.relay.op.define.dims import broadcast_dims, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward_tuple, one_dtype
from apass.relay.op.define.unary import Function

__all__ = ["EinsumAttrs", "einsum", "explicit_terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EinsumAttrs(Attrs):
    """The attributes of einsum."""

    equation: str
    """The labels of the axes of each tensor, and those of the result: `ij,jk->ik`."""


def _relate(data: tuple[TensorType, ...], attrs: EinsumAttrs) -> TensorType:
    *terms, output = explicit_terms(attrs.equation, [ty.shape for ty in data])
    sizes: dict[str, Dim] = {}
    for term, ty in zip(terms, data, strict=True):
        for letter, dim in zip(term, ty.shape, strict=True):
            (sizes[letter],) = broadcast_dims((sizes.get(letter, 1),), (dim,))
    return TensorType([sizes[letter] for letter in output], one_dtype(*data))


def explicit_terms(equation: str, shapes: Sequence[Sequence[Dim]]) -> list[str]:
    """Return the labels of each tensor, followed by those of the result.

    Each axis has a letter, also those of an ellipsis.

    Raises:
        ValueError: if the equation is invalid for tensors of these shapes.

    >>> explicit_terms("...ij,jk", [(5, 2, 3), (3, 4)])
    ['Aij', 'jk', 'Aik']
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise ValueError(f"the equation {equation!r} needs {len(terms)} tensors, got {len(shapes)}")
    rests = [len(shape) - len(term.replace("...", "", 1)) for term, shape in zip(terms, shapes, strict=True)]
    unused = sorted({*ascii_letters} - {*equation})[: max(rests)]
    dots = "".join(unused)
    expanded = [
        term.replace("...", dots[len(dots) - rest :], 1) if rest >= 0 else term
        for term, rest in zip(terms, rests, strict=True)
    ]
    for term, labels, shape in zip(terms, expanded, shapes, strict=True):
        if len(labels) != len(shape) or not f"{labels}a".isalpha():
            raise ValueError(f"{term!r} does not label the axes of a tensor of shape {shape_text(shape)}")
    result = (output if arrow else _implicit(terms)).replace("...", dots, 1)
    if not {*dots} <= {*result} <= {*"".join(expanded)} or len({*result}) < len(result):
        raise ValueError(f"the result {output!r} must use labels of the tensors, each at most once, and their ellipsis")
    return [*expanded, result]


def _implicit(terms: Sequence[str]) -> str:
    """Return the labels of the result if the equation has no arrow.

    As in numpy, these are the letters that occur once, in alphabetical order.
    """
    letters = Counter("".join(terms).replace(".", ""))
    once = sorted(letter for letter, count in letters.items() if count == 1)
    return ("..." if any("..." in term for term in terms) else "") + "".join(once)


def _kernel(function: Function) -> Compute:
    def compute(attrs: EinsumAttrs, data: tuple[Array, ...]) -> Array:
        return np.asarray(function(attrs.equation, *data, optimize=True)).astype(data[0].dtype, copy=False)

    return compute


_EINSUM = register_op(
    "einsum",
    arguments=("data",),
    attrs_type=EinsumAttrs,
    relation=forward_tuple("einsum", "data", _relate),
    compute=_kernel(np.einsum),
    pattern=OpPattern.INJECTIVE,
    level=11,
    description="Sums of products over the axes that share a label.",
)


def einsum(data: Expr | TupleWrapper | Iterable[Expr], equation: str) -> Call:
    """Return sums of products over labelled axes, as numpy's einsum does.

    For example, `einsum([a, b], "ij,jk->ik")` is the product of two matrices.
    """
    return Call(_EINSUM, (tuple_of("einsum", data),), EinsumAttrs(equation=equation))
