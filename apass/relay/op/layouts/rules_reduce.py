"""Rules of reductions: the axes move to where they stand, and the result has the layout of those that are left."""

from collections.abc import Sequence
from typing import Final

from apass.relay.ir.attrs import Attrs
from apass.relay.op.layouts.infer import InferCorrectLayoutOutput, Layouts, set_rule, shape_of
from apass.relay.op.layouts.names import axes_of, rank, text_of, without
from apass.relay.op.reduce import reduce_axes
from apass.relay.op.reduction.statistics import VarianceAttrs
from apass.relay.ty import Type

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
    """Return as above, if the elements that are counted stand in the same order."""
    made = _reduce(attrs, new, old, types)
    before, after = old[0], None if new is None else new[0]
    if made is None or attrs is None or before is None or after is None:
        return made
    letters = _reduced(attrs, before) or set()
    in_order = [[one for one in axes_of(layout) if one[0].upper() in letters] for layout in (before, after)]
    return made if in_order[0] == in_order[1] else _reduce(attrs, None, old, types)


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
    # The mean that the variance is taken around keeps the dimensions of the data.
    others = (_ones(target, letters),) if isinstance(attrs, VarianceAttrs) else ()
    left = _ones(target, letters) if attrs["keepdims"] else without(target, letters)
    return None if adapted is None else InferCorrectLayoutOutput((target, *others), (left,), adapted)


def _moved(attrs: Attrs, target: str, letters: set[str]) -> Attrs | None:
    """Return the attributes for a layout; None if there is no axis to name, as none at all would mean all of them."""
    named = [place for place, (one, _) in enumerate(axes_of(target)) if (one.upper() in letters) != attrs["exclude"]]
    return attrs.replaced(axis=tuple(named)) if named else None


def _ones(layout: str, letters: set[str]) -> str:
    """Return a layout when some axes are 1 long: so are their blocks."""
    return text_of((letter, 1 if letter.upper() in letters else factor) for letter, factor in axes_of(layout))


def _reduced(attrs: Attrs, layout: str) -> set[str] | None:
    """Return the letters of the axes that are reduced; None if one is reduced without its block, or the other way."""
    axis = attrs["axis"]
    given = None if axis is None else attrs.get_int_tuple("axis")
    places = reduce_axes(rank(layout), given, bool(attrs["exclude"]))
    letters = {axes_of(layout)[place][0] for place in places}
    capitals = {letter.upper() for letter in letters}
    return capitals if all((one in letters) == (one.upper() in capitals) for one, _ in axes_of(layout)) else None


set_rule(_orderless, _ORDERLESS)
set_rule(_indexing, _INDEXING)
