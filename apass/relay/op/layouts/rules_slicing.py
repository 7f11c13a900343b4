"""The rule of strided_slice: the places go where their axes do, counted in blocks where these are split."""

from collections.abc import Sequence
from dataclasses import dataclass

from apass.relay.ir.attrs import Attrs
from apass.relay.op.define.layout import convert_shape, parse_layout
from apass.relay.op.layouts.infer import follow, set_rule
from apass.relay.op.layouts.names import Change, axes_of, can_change, index, is_split
from apass.relay.op.shape.slicing import StridedSliceAttrs
from apass.relay.ty import Dim

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class _Places:
    """What is taken of one axis; None for what the call leaves open."""

    begin: int | None
    end: int | None
    stride: int | None
    is_size: bool
    """Whether `end` is a size, and the stride does not count."""

    def closed(self, length: Dim) -> "_Places | None":
        """Return these with nothing open; None if that would be something else, or cannot be told."""
        if self.is_size:
            rest = length if isinstance(length, int) else -1
            return _Places(self.begin or 0, rest if self.end is None else self.end, 1, True)
        stride = 1 if self.stride is None else self.stride
        if (stride < 0 and None in (self.begin, self.end)) or (self.end is None and not isinstance(length, int)):
            return None
        end = length if self.end is None and isinstance(length, int) else self.end
        return _Places(self.begin or 0, end, stride, False)

    def in_blocks(self, block: int, length: Dim) -> "_Places | None":
        """Return these counted in blocks; None if they do not lie between blocks."""
        begin, end = self.begin, self.end
        if block == 1:
            return self
        if begin is None or end is None or not isinstance(length, int) or self.stride != 1:
            return None
        begin = min(begin, length)
        end = end if self.is_size else min(end, length)
        if self.is_size and end < 0:
            return None if begin % block else _Places(begin // block, -1, 1, True)
        return None if begin % block or end % block else _Places(begin // block, end // block, 1, self.is_size)


def _sliced(attrs: Attrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    """Return the attributes for another layout; None if places do not lie between blocks, or a block is sliced."""
    if not isinstance(attrs, StridedSliceAttrs) or not can_change(shape, change.source, change.target):
        return None
    count = max(len(attrs.begin), len(attrs.end))
    axes = range(count) if attrs.axes is None else [axis % len(shape) for axis in attrs.axes]
    made: dict[int, _Places] = {}
    for place, axis in enumerate(axes):
        letter = change.letter(axis)
        given = _given(attrs, place).closed(shape[axis])
        moved = None if given is None else given.in_blocks(_block(change, letter), shape[axis])
        if moved is None or is_split(change.source, letter):
            return None
        made[index(change.target, letter)] = moved
    moved_shape = convert_shape(tuple(shape), *map(parse_layout, (change.source, change.target)))
    return _with_places(attrs, made, change, moved_shape)


def _given(attrs: StridedSliceAttrs, place: int) -> _Places:
    """Return what the call says of the axis that it names at a place."""
    rows = (attrs.begin, attrs.end, attrs.strides)
    begin, end, stride = (_at(one, place) for one in rows)
    return _Places(begin, end, stride, attrs.slice_mode == "size")


def _at(values: Sequence[int], place: int) -> int | None:
    return values[place] if place < len(values) else None


def _block(change: Change, letter: str) -> int:
    """Return how many elements are one after the change: the size of a block that is split off by it."""
    place = index(change.target, letter.lower())
    return 1 if place < 0 else axes_of(change.target)[place][1]


def _with_places(
    attrs: StridedSliceAttrs, made: dict[int, _Places], change: Change, shape: Sequence[Dim]
) -> Attrs | None:
    """Return the attributes with the places of the axes that the call names, or of all of them in order.

    Where axes are only split, as from NCHW to NCHW4c, the call goes on with as many places as it had.
    """
    keeps_order = change.target.startswith(change.source)
    rank = len(made) if keeps_order else len(shape)
    axes = tuple(range(rank)) if attrs.axes is None else tuple(made)
    everything = _Places(None, None, None, attrs.slice_mode == "size")
    places = [one for axis in axes if (one := made.get(axis) or everything.closed(shape[axis])) is not None]
    if len(places) != len(axes):
        return None
    return attrs.replaced(
        begin=tuple(one.begin for one in places),
        end=tuple(one.end for one in places),
        strides=attrs.strides if keeps_order else tuple(one.stride for one in places),
        axes=None if attrs.axes is None else axes,
    )


set_rule(follow(_sliced), ("strided_slice",))
