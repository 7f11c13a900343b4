"""Layout rules, TVM's `FInferCorrectLayout`, and tools to build them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Op
from apass.relay.ir.ty import Dim, TensorType, TupleType, Type
from apass.relay.op.layouts.names import Change, rank

__all__ = ["FInferCorrectLayout", "InferCorrectLayoutOutput", "Layouts", "follow", "set_rule", "shape_of", "tensors_of"]

Layouts: TypeAlias = Sequence[str | None]
"""A layout for each tensor: None if it is unknown, "" for a scalar."""


@dataclass(frozen=True, slots=True)
class InferCorrectLayoutOutput:
    """Layouts of inputs and results that are valid together for a call of an operator."""

    input_layouts: Layouts
    """For each operand, with the fields of a tuple listed one by one; None to require the original layout."""
    output_layouts: Layouts
    """For each result."""
    new_attrs: Attrs | None = None
    """The attributes of the call in these layouts."""


FInferCorrectLayout: TypeAlias = Callable[
    [Attrs | None, Layouts | None, Layouts, Sequence[Type]], InferCorrectLayoutOutput | None
]
"""A rule, `rule(attrs, new_in_layouts, old_in_layouts, old_in_types)`: the op attribute `FInferCorrectLayout`.

The pass calls a rule twice:

- With None for `new_in_layouts`: return the layouts of the call in the original program, inferred from the layouts of
  the operands that are known.
- With the layouts that the converted operands have: return the layouts that the call accepts.

If the rule returns None, or None as the layout of a result, the layout is unknown and the call is not changed.
"""

Adapt: TypeAlias = Callable[[Attrs, Change, Sequence[Dim]], Attrs | None]
"""Returns the attributes of a call whose first operand, of a given shape, changes its layout; None if it cannot."""


def set_rule(rule: FInferCorrectLayout, names: Iterable[str]) -> None:
    """Set the layout rule of several operators."""
    for name in names:
        Op.get(name).set_attr("FInferCorrectLayout", rule)


def shape_of(ty: Type) -> tuple[Dim, ...] | None:
    """Return the shape of a tensor type, or None for any other type."""
    return ty.shape if isinstance(ty, TensorType) else None


def follow(adapt: Adapt, *, results: int = 1) -> FInferCorrectLayout:
    """Return the rule that the first result has the layout of the first operand.

    The other operands are vectors or scalars and keep their layouts. The other results are vectors.
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
    """Return the types of the operands of a call.

    The fields of a tuple are listed one by one.
    """
    return [field for ty in types for field in (ty.fields if isinstance(ty, TupleType) else (ty,))]
