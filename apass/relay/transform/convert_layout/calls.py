"""What ConvertLayout knows of a call while it finds the layouts that go together: operands, and what they are in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from apass.relay.expr import Call, Expr, Op, Tuple
from apass.relay.op.layouts.infer import FInferCorrectLayout, InferCorrectLayoutOutput, Layouts, shape_of, tensors_of
from apass.relay.op.layouts.names import can_change
from apass.relay.ty import Type

__all__ = ["Laid", "Operand", "Operands", "fits", "infer_layouts"]


@dataclass(frozen=True, slots=True)
class Laid:
    """A tensor whose layout is known."""

    value: Expr
    """The tensor as it is now."""
    new: str
    """The layout that it is in."""
    old: str
    """The layout that the program has it in."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a call, or a field of one that is a tuple."""

    old: Expr
    """As the program has it."""
    value: Expr
    """As it is now: in its new layout, or as the program has it."""
    laid: Laid | None
    """What is known of its layout."""

    def layout_as(self, old: str | None) -> str | None:
        """Return the layout that it is in now, if the call has it in layout `old` in the program."""
        return self.laid.new if self.laid is not None and self.laid.old == old else old


@dataclass(frozen=True, slots=True)
class Operands:
    """All operands of a call, those in a tuple one by one."""

    args: Sequence[Expr]
    """The arguments of the call."""
    types: Sequence[Type]
    """Their types."""
    each: Sequence[Operand]
    """The operands."""
    sizes: Sequence[int | None]
    """For each argument how many operands it is as a tuple, None for one that is an operand itself."""

    def grouped(self, values: Iterable[Expr]) -> list[Expr]:
        """Return values for the operands as the arguments of a call; those are the same where all of theirs are."""
        rest, olds = iter(values), iter([one.old for one in self.each])
        made: list[Expr] = []
        for arg, size in zip(self.args, self.sizes, strict=True):
            new, old = list(islice(rest, size or 1)), list(islice(olds, size or 1))
            made.append(arg if new == old else new[0] if size is None else Tuple(new))
        return made


def infer_layouts(
    call: Call, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return the layouts that go together for a call, by the rule of its operator; None if there are none."""
    rule = call.op.get_attr("FInferCorrectLayout") if isinstance(call.op, Op) else None
    if rule is None:
        return None
    found = cast("FInferCorrectLayout", rule)(call.attrs, new, old, types)
    if found is None or None in found.output_layouts or len(found.input_layouts) != len(old):
        return None
    return found


def fits(
    types: Sequence[Type], result: Type, before: InferCorrectLayoutOutput, after: InferCorrectLayoutOutput
) -> bool:
    """Tell whether all operands and results of a call can go from the layouts of the program to those found after."""
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
