"""What rules for layouts are: TVM's `FInferCorrectLayout`; and how the simple ones among them are built."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apass.relay.expr import Op
from apass.relay.ir.attrs import Attrs
from apass.relay.op.layouts.names import Change, rank
from apass.relay.ty import Dim, TensorType, TupleType, Type

__all__ = ["FInferCorrectLayout", "InferCorrectLayoutOutput", "Layouts", "follow", "set_rule", "shape_of", "tensors_of"]

Layouts: TypeAlias = Sequence[str | None]
"""A layout for each tensor, None where none is known; "" is that of a scalar."""


@dataclass(frozen=True, slots=True)
class InferCorrectLayoutOutput:
    """The layouts that go together for a call of an operator."""

    input_layouts: Layouts
    """For each operand, those in a tuple one by one; None for one that has to be as the program has it."""
    output_layouts: Layouts
    """For each result."""
    new_attrs: Attrs | None = None
    """The attributes that the call then has."""


FInferCorrectLayout: TypeAlias = Callable[
    [Attrs | None, Layouts | None, Layouts, Sequence[Type]], InferCorrectLayoutOutput | None
]
"""A rule, `rule(attrs, new_in_layouts, old_in_layouts, old_in_types)`: the op attribute `FInferCorrectLayout`.

It is asked twice. First with None for `new_in_layouts`: which layouts does the call have as the program was written,
given what is known of its operands? Then with the layouts in which operands are at hand: which does it take? None, or
None for a result's layout, means that there is nothing to say; then the call stays as it is.
"""

Adapt: TypeAlias = Callable[[Attrs, Change, Sequence[Dim]], Attrs | None]
"""Returns the attributes of a call when its first operand, of the shape, is in another layout; None if it cannot be."""


def set_rule(rule: FInferCorrectLayout, names: Iterable[str]) -> None:
    """Give operators their rule."""
    for name in names:
        Op.get(name).set_attr("FInferCorrectLayout", rule)


def shape_of(ty: Type) -> tuple[Dim, ...] | None:
    """Return the shape of a tensor's type, None if it is that of something else."""
    return ty.shape if isinstance(ty, TensorType) else None


def follow(adapt: Adapt, *, results: int = 1) -> FInferCorrectLayout:
    """Return the rule that the first result is in the layout of the first operand, and the others stay as they are.

    Those others are vectors or scalars; further results are vectors.
    """

    def rule(
        attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
    ) -> InferCorrectLayoutOutput | None:
        source, shape = old[0], shape_of(types[0])
        if source is None or attrs is None or shape is None or rank(source) != len(shape):
            return None
        others = (None,) * (len(old) - 1)
        vectors = ("C",) * (results - 1)
        target = source if new is None or new[0] is None else new[0]
        adapted = attrs if source == target else adapt(attrs, Change(source, target), shape)
        if adapted is None:
            return InferCorrectLayoutOutput((source, *others), (source, *vectors), attrs)
        return InferCorrectLayoutOutput((target, *others), (target, *vectors), adapted)

    return rule


def tensors_of(types: Iterable[Type]) -> list[Type]:
    """Return the types of the operands of a call, those in a tuple one by one."""
    return [one for ty in types for one in (ty.fields if isinstance(ty, TupleType) else (ty,))]
