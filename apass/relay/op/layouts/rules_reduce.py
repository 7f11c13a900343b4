"""Layout rules of reductions.

The reduced axes move to their new positions. The result has the layout of the remaining axes.
"""

from collections.abc import Sequence
from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Type
from apass.relay.op.layouts.infer import InferCorrectLayoutOutput, Layouts, set_rule, shape_of
from apass.relay.op.layouts.names import axes_of, rank, text_of, without
from apass.relay.op.reduce import reduce_axes
from apass.relay.op.reduction.statistics import VarianceAttrs

__all__: list[str] = []

_ORDERLESS: Final = ("sum", "mean", "prod", "max", "min", "all", "any", "variance")
_INDEXING: Final = ("argmax", "argmin")


def _orderless(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    return _reduce(attrs, new, old, types)


def _indexing(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    # The index counts elements over all reduced axes, so these must keep their order.
    result = _reduce(attrs, new, old, types)
    before, after = old[0], None if new is None else new[0]
    if result is None or attrs is None or before is None or after is None:
        return result
    letters = _reduced(attrs, before) or set()
    in_order = [[dim for dim in axes_of(layout) if dim[0].upper() in letters] for layout in (before, after)]
    return result if in_order[0] == in_order[1] else _reduce(attrs, None, old, types)


def _reduce(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    source, shape = old[0], shape_of(types[0])
    if attrs is None or source is None or shape is None or rank(source) != len(shape):
        return None
    letters = _reduced(attrs, source)
    if letters is None:
        return None
    target = source if new is None or new[0] is None else new[0]
    adapted = attrs if target == source else _moved(attrs, target, letters)
    # The mean operand of variance keeps the dimensions of the data.
    others = (_ones(target, letters),) if isinstance(attrs, VarianceAttrs) else ()
    rest = _ones(target, letters) if attrs["keepdims"] else without(target, letters)
    return None if adapted is None else InferCorrectLayoutOutput((target, *others), (rest,), adapted)


def _moved(attrs: Attrs, target: str, letters: set[str]) -> Attrs | None:
    """Return the attributes for another layout; None if `axis` would be empty."""
    # An empty `axis` would mean all axes.
    axes = [axis for axis, (letter, _) in enumerate(axes_of(target)) if (letter.upper() in letters) != attrs["exclude"]]
    return attrs.replaced(axis=tuple(axes)) if axes else None


def _ones(layout: str, letters: set[str]) -> str:
    """Return a layout in which the given axes, and so their blocks, have size 1."""
    return text_of((letter, 1 if letter.upper() in letters else factor) for letter, factor in axes_of(layout))


def _reduced(attrs: Attrs, layout: str) -> set[str] | None:
    """Return the letters of the reduced axes.

    Return None if an axis is reduced without its block, or a block without its axis.
    """
    axis = None if attrs["axis"] is None else attrs.get_int_tuple("axis")
    letters = {axes_of(layout)[reduced][0] for reduced in reduce_axes(rank(layout), axis, bool(attrs["exclude"]))}
    capitals = {letter.upper() for letter in letters}
    is_whole = all((letter in letters) == (letter.upper() in capitals) for letter, _ in axes_of(layout))
    return capitals if is_whole else None


set_rule(_orderless, _ORDERLESS)
set_rule(_indexing, _INDEXING)
