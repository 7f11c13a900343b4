"""einsum: sums of products over labelled axes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    inputs, arrow, output = attrs.equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(data):
        raise ValueError(f"the equation {attrs.equation!r} needs {len(terms)} tensors, got {len(data)}")
    sizes: dict[str, Dim] = {}
    rest: tuple[Dim, ...] = ()
    for term, ty in zip(terms, data, strict=True):
        named, others = _axes(term, ty.shape)
        rest = broadcast_dims(rest, others)
        for letter, dim in named:
            (sizes[letter],) = broadcast_dims((sizes.get(letter, 1),), (dim,))
    shape = _shape(output if arrow else _implicit(terms), sizes, rest)
    return TensorType(shape, one_dtype(*data))


def _axes(term: str, shape: Sequence[Dim]) -> tuple[list[tuple[str, Dim]], tuple[Dim, ...]]:
    """Return the labelled axes, and the sizes of the axes that the ellipsis covers."""
    before, dots, after = term.partition("...")
    count = len(before) + len(after)
    if count > len(shape) or (count < len(shape) and not dots) or not (before + after + "a").isalpha():
        raise ValueError(f"{term!r} does not label the axes of a tensor of shape {shape_text(shape)}")
    end = len(shape) - len(after)
    named = [*zip(before, shape, strict=False), *zip(after, shape[end:], strict=True)]
    return named, tuple(shape[len(before) : end])


def _implicit(terms: Sequence[str]) -> str:
    """Return the labels of the result if the equation has no arrow.

    As in numpy, these are the letters that occur once, in alphabetical order.
    """
    letters = Counter("".join(terms).replace(".", ""))
    once = sorted(letter for letter, count in letters.items() if count == 1)
    return ("..." if any("..." in term for term in terms) else "") + "".join(once)


def explicit_terms(equation: str, ranks: Sequence[int]) -> list[str]:
    """Return the labels of each tensor, followed by those of the result.

    Each axis has a letter, also those of an ellipsis. The equation must be valid for tensors of these ranks.
    """
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    rests = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    unused = sorted({*ascii_letters} - {*equation})[: max(rests)]
    expanded = [
        term.replace("...", "".join(unused[len(unused) - rest :])) for term, rest in zip(terms, rests, strict=True)
    ]
    result = output if arrow else _implicit(terms)
    return [*expanded, result.replace("...", "".join(unused))]


def _shape(output: str, sizes: Mapping[str, Dim], rest: Sequence[Dim]) -> list[Dim]:
    before, dots, after = output.partition("...")
    letters = before + after
    if not set(letters) <= set(sizes) or len(set(letters)) < len(letters) or (rest and not dots):
        raise ValueError(f"the result {output!r} must use labels of the tensors, each at most once, and their ellipsis")
    return [*map(sizes.__getitem__, before), *rest, *map(sizes.__getitem__, after)]


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
