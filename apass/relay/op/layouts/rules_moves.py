"""Layout rules of operators that move, join and split elements.

These are concatenate, split, transpose, squeeze, nn.pad and slice_like.
"""

from collections.abc import Sequence

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Dim, Type
from apass.relay.op.layouts.infer import InferCorrectLayoutOutput, Layouts, follow, set_rule, shape_of, tensors_of
from apass.relay.op.layouts.names import Change, axes_of, index, is_split, primal, rank, text_of, without
from apass.relay.op.layouts.rules_axis import axis_moved
from apass.relay.op.nn.pad import MirrorPadAttrs, PadAttrs
from apass.relay.op.shape.axes import SqueezeAttrs, TransposeAttrs
from apass.relay.op.shape.join import SplitAttrs
from apass.relay.op.shape.slicing import SliceLikeAttrs

__all__: list[str] = []


def _concatenate(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    # If the operands have several new layouts, keep the original one.
    source = next((layout for layout in old if layout is not None), None)
    count = len(tensors_of(types))
    if attrs is None or source is None or count != len(old):
        return None
    axis = attrs.get_int("axis") % rank(source)
    letter = axes_of(source)[axis][0]
    if letter.islower():
        return None
    target = source if new is None or new[0] is None or len(set(new)) > 1 else new[0]
    adapted = attrs if target == source else attrs.replaced(axis=index(target, letter))
    return InferCorrectLayoutOutput((target,) * count, (target,), adapted)


def _split(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    source, shape = old[0], shape_of(types[0])
    if not isinstance(attrs, SplitAttrs) or source is None or shape is None or rank(source) != len(shape):
        return None
    cuts = attrs.indices_or_sections
    count = cuts if isinstance(cuts, int) else len(cuts) + 1
    target = source if new is None or new[0] is None else new[0]
    adapted = attrs if target == source else _split_moved(attrs, Change(source, target), shape)
    if adapted is None:
        return InferCorrectLayoutOutput((source,), (source,) * count, attrs)
    return InferCorrectLayoutOutput((target,), (target,) * count, adapted)


def _split_moved(attrs: SplitAttrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    """Return the attributes for another layout; None if a cut is inside a block."""
    axis = attrs.axis % len(shape)
    letter, length, cuts = change.letter(axis), shape[axis], attrs.indices_or_sections
    if not is_split(change.target, letter):
        return axis_moved(attrs, change, shape)
    block = axes_of(change.target)[index(change.target, letter.lower())][1]
    positions = (length if isinstance(length, int) else 1,) if isinstance(cuts, int) else cuts
    parts = cuts if isinstance(cuts, int) else 1
    if is_split(change.source, letter) or any(position % (block * parts) for position in positions):
        return None
    moved = cuts if isinstance(cuts, int) else tuple(position // block for position in cuts)
    return attrs.replaced(axis=index(change.target, letter), indices_or_sections=moved)


def _transpose(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Change the permutation, so that the result keeps its layout."""
    source, shape = old[0], shape_of(types[0])
    if not isinstance(attrs, TransposeAttrs) or source is None or shape is None or rank(source) != len(shape):
        return None
    dims = axes_of(source)
    order = [axis % len(dims) for axis in attrs.axes or range(len(dims) - 1, -1, -1)]
    result = text_of(dims[axis] for axis in order)
    target = source if new is None or new[0] is None else new[0]
    moved = Change(source, target).whole_axes(order)
    if target == source or moved is None:
        return InferCorrectLayoutOutput((source,), (result,), attrs)
    return InferCorrectLayoutOutput((target,), (result,), attrs.replaced(axes=moved))


def _squeeze(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    source, shape = old[0], shape_of(types[0])
    if not isinstance(attrs, SqueezeAttrs) or source is None or shape is None or rank(source) != len(shape):
        return None
    axes = attrs.axis if attrs.axis is not None else [axis for axis, dim in enumerate(shape) if dim == 1]
    axes = [axis % len(shape) for axis in axes]
    removed = {axes_of(source)[axis][0] for axis in axes}
    if is_split(source, removed):
        return None
    target = source if new is None or new[0] is None else new[0]
    moved = Change(source, target).whole_axes(axes)
    if target == source or moved is None:
        return InferCorrectLayoutOutput((source,), (without(source, removed),), attrs)
    return InferCorrectLayoutOutput((target,), (without(target, removed),), attrs.replaced(axis=moved))


def _padded(attrs: Attrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    """Return the widths in the new order of axes; None if a padded axis is split."""
    if not isinstance(attrs, PadAttrs | MirrorPadAttrs):
        return None
    widths = {letter: width for (letter, _), width in zip(axes_of(change.source), attrs.pad_width, strict=True)}
    no_padding = (0, 0)
    padded = {letter for letter, width in widths.items() if tuple(width) != no_padding}
    if change.splits(padded):
        return None
    return attrs.replaced(pad_width=tuple(widths.get(letter, no_padding) for letter, _ in axes_of(change.target)))


def _slice_like(
    attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
) -> InferCorrectLayoutOutput | None:
    """Return one layout for both operands, if they have the same number of dimensions."""
    source = next((layout for layout in old if layout is not None), None)
    shapes = [shape_of(ty) for ty in types]
    if not isinstance(attrs, SliceLikeAttrs) or source is None or None in shapes:
        return None
    if any(shape is None or len(shape) != rank(source) for shape in shapes):
        return None
    target = source if new is None or new[0] is None else new[0]
    adapted = attrs if target == source else _slice_like_moved(attrs, Change(source, target))
    layout = source if adapted is None else target
    return InferCorrectLayoutOutput((layout, layout), (layout,), attrs if adapted is None else adapted)


def _slice_like_moved(attrs: SliceLikeAttrs, change: Change) -> Attrs | None:
    if not attrs.axes:
        return None if change.splits(primal(change.source)) else attrs
    axes = change.whole_axes(axis % rank(change.source) for axis in attrs.axes)
    return None if axes is None else attrs.replaced(axes=axes)


set_rule(_concatenate, ("concatenate",))
set_rule(_split, ("split",))
set_rule(_transpose, ("transpose",))
set_rule(_squeeze, ("squeeze",))
set_rule(follow(_padded), ("nn.pad", "nn.mirror_pad"))
set_rule(_slice_like, ("slice_like",))
