"""Operands of a call and their layouts, as ConvertLayout tracks them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from apass.relay.ir.expr import Call, Expr, Op, Tuple
from apass.relay.ir.ty import Type
from apass.relay.op.layouts.infer import FInferCorrectLayout, InferCorrectLayoutOutput, Layouts, shape_of, tensors_of
from apass.relay.op.layouts.names import can_change

__all__ = ["Operand", "Operands", "TensorLayout", "fits", "infer_layouts"]


@dataclass(frozen=True, slots=True)
class TensorLayout:
    """A tensor and its layout, in the original program and after the rewrite."""

    value: Expr
    """The rewritten tensor."""
    new: str
    """The layout of the rewritten tensor."""
    old: str
    """The layout in the original program."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a call, or a field of a tuple operand."""

    old: Expr
    """The original expression."""
    value: Expr
    """The rewritten expression, in the new layout if `layout` is known."""
    layout: TensorLayout | None
    """Its layouts; None if they are not known."""

    def current_layout(self, old: str | None) -> str | None:
        """Return the present layout, if the original call has the operand in `old`."""
        return self.layout.new if self.layout is not None and self.layout.old == old else old


@dataclass(frozen=True, slots=True)
class Operands:
    """All operands of a call, with tuples flattened to their fields."""

    args: Sequence[Expr]
    """The arguments of the call."""
    types: Sequence[Type]
    """Their types."""
    each: Sequence[Operand]
    """The flattened operands."""
    sizes: Sequence[int | None]
    """For each argument, its number of fields if it is a tuple, else None."""

    def grouped(self, values: Iterable[Expr]) -> list[Expr]:
        """Group values for the operands into call arguments.

        An argument whose values are all unchanged stays the same object.
        """
        rest, olds = iter(values), iter([operand.old for operand in self.each])
        result: list[Expr] = []
        for arg, size in zip(self.args, self.sizes, strict=True):
            new, old = list(islice(rest, size or 1)), list(islice(olds, size or 1))
            result.append(arg if new == old else new[0] if size is None else Tuple(new))
        return result


def infer_layouts(
    call: Call, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layouts of a call by its operator's rule; None if there are none."""
    rule = call.op.get_attr("FInferCorrectLayout") if isinstance(call.op, Op) else None
    if rule is None:
        return None
    result = cast("FInferCorrectLayout", rule)(call.attrs, new, old, types)
    if result is None or None in result.output_layouts or len(result.input_layouts) != len(old):
        return None
    return result


def fits(
    types: Sequence[Type], result: Type, before: InferCorrectLayoutOutput, after: InferCorrectLayoutOutput
) -> bool:
    """Return whether all tensors of a call can change their layouts.

    They change from the layouts `before` to the layouts `after`.
    """
    tensors = tensors_of([*types, result])
    olds = (*before.input_layouts, *before.output_layouts)
    news = (*after.input_layouts, *after.output_layouts)
    if not len(tensors) == len(olds) == len(news):
        return False
    return all(map(_can_change, tensors, olds, news))


def _can_change(ty: Type, old: str | None, new: str | None) -> bool:
    shape = shape_of(ty)
    if old is None or new is None or old == new:
        return True
    return shape is not None and can_change(shape, old, new)
