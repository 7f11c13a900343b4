"""Layout rule of strided_slice.

The range of each axis moves with the axis. If the new layout splits the axis, the range is counted in blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ty import Dim
from apass.relay.op.define.layout import convert_shape, parse_layout
from apass.relay.op.layouts.infer import follow, set_rule
from apass.relay.op.layouts.names import Change, axes_of, can_change, index, is_split
from apass.relay.op.shape.slicing import StridedSliceAttrs

__all__: list[str] = []


@dataclass(frozen=True, slots=True)
class _Range:
    """The slice of one axis. None for a value that the call does not set."""

    begin: int | None
    end: int | None
    stride: int | None
    is_size: bool
    """Whether `end` is a size, and the stride is ignored."""

    def closed(self, length: Dim) -> "_Range | None":
        """Return the same range with all values set; None if that is not possible."""
        if self.is_size:
            rest = length if isinstance(length, int) else -1
            return _Range(self.begin or 0, rest if self.end is None else self.end, 1, True)
        stride = 1 if self.stride is None else self.stride
        # A negative stride has other defaults, and an open end needs a length that is known.
        if (stride < 0 and None in (self.begin, self.end)) or (self.end is None and not isinstance(length, int)):
            return None
        end = length if self.end is None and isinstance(length, int) else self.end
        return _Range(self.begin or 0, end, stride, False)

    def in_blocks(self, block: int, length: Dim) -> "_Range | None":
        """Return the range counted in blocks; None if a bound is inside a block."""
        begin, end = self.begin, self.end
        if block == 1:
            return self
        if begin is None or end is None or not isinstance(length, int) or self.stride != 1:
            return None
        begin = min(begin, length)
        end = end if self.is_size else min(end, length)
        if self.is_size and end < 0:
            return None if begin % block else _Range(begin // block, -1, 1, True)
        return None if begin % block or end % block else _Range(begin // block, end // block, 1, self.is_size)


def _sliced(attrs: Attrs, change: Change, shape: Sequence[Dim]) -> Attrs | None:
    """Return the attributes for the new layout; None if a bound is inside a block."""
    if not isinstance(attrs, StridedSliceAttrs) or not can_change(shape, change.source, change.target):
        return None
    count = max(len(attrs.begin), len(attrs.end))
    axes = range(count) if attrs.axes is None else [axis % len(shape) for axis in attrs.axes]
    ranges: dict[int, _Range] = {}
    for position, axis in enumerate(axes):
        letter = change.letter(axis)
        source_range = _range_at(attrs, position).closed(shape[axis])
        moved = None if source_range is None else source_range.in_blocks(_block(change, letter), shape[axis])
        if moved is None or is_split(change.source, letter):
            return None
        ranges[index(change.target, letter)] = moved
    moved_shape = convert_shape(tuple(shape), *map(parse_layout, (change.source, change.target)))
    return _with_ranges(attrs, ranges, change, moved_shape)


def _range_at(attrs: StridedSliceAttrs, position: int) -> _Range:
    """Return the range that the call sets at a position of its lists."""
    lists = (attrs.begin, attrs.end, attrs.strides)
    begin, end, stride = (values[position] if position < len(values) else None for values in lists)
    return _Range(begin, end, stride, attrs.slice_mode == "size")


def _block(change: Change, letter: str) -> int:
    """Return the size of the block that the change splits off an axis, or 1."""
    position = index(change.target, letter.lower())
    return 1 if position < 0 else axes_of(change.target)[position][1]


def _with_ranges(
    attrs: StridedSliceAttrs, ranges: dict[int, _Range], change: Change, shape: Sequence[Dim]
) -> Attrs | None:
    """Return the attributes with the ranges of the named axes, or all in order.

    If the change only splits axes, as from NCHW to NCHW4c, the call keeps the number of its ranges.
    """
    keeps_order = change.target.startswith(change.source)
    rank = len(ranges) if keeps_order else len(shape)
    axes = tuple(range(rank)) if attrs.axes is None else tuple(ranges)
    whole = _Range(None, None, None, attrs.slice_mode == "size")
    closed = [item for axis in axes if (item := ranges.get(axis) or whole.closed(shape[axis])) is not None]
    if len(closed) != len(axes):
        return None
    return attrs.replaced(
        begin=tuple(item.begin for item in closed),
        end=tuple(item.end for item in closed),
        strides=attrs.strides if keeps_order else tuple(item.stride for item in closed),
        axes=None if attrs.axes is None else axes,
    )


set_rule(follow(_sliced), ("strided_slice",))
