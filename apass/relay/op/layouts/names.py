"""Queries on the names of layouts: positions of axes, blocks, and sublayouts.

In addition to the layouts of `parse_layout`, "" is accepted as the layout of a scalar.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from apass.relay.ir.ty import Dim
from apass.relay.op.define.layout import convert_shape, parse_layout

__all__ = [
    "Change",
    "axes_of",
    "can_change",
    "expanded",
    "index",
    "is_split",
    "primal",
    "rank",
    "text_of",
    "trailing",
    "without",
]


def axes_of(layout: str) -> tuple[tuple[str, int], ...]:
    """Return the letter and the factor of each dimension.

    >>> axes_of("NCHW4c")[-1], axes_of("")
    (('c', 4), ())
    """
    return parse_layout(layout).axes if layout else ()


def rank(layout: str) -> int:
    """Return the number of dimensions of a tensor in a layout."""
    return len(axes_of(layout))


@cache
def primal(layout: str) -> str:
    """Return the capital letters, in order.

    >>> primal("NCHW4c")
    'NCHW'
    """
    return "".join(letter for letter, _ in axes_of(layout) if letter.isupper())


def index(layout: str, letter: str) -> int:
    """Return the position of a letter, or -1 if the layout does not contain it."""
    return next((position for position, (name, _) in enumerate(axes_of(layout)) if name == letter), -1)


def is_split(layout: str, letters: Iterable[str]) -> bool:
    """Return whether at least one of the axes has a block.

    >>> is_split("NCHW4c", "NC"), is_split("NCHW4c", "HW")
    (True, False)
    """
    return any(index(layout, letter.lower()) >= 0 for letter in letters)


def text_of(axes: Iterable[tuple[str, int]]) -> str:
    """Return the layout that consists of the given dimensions."""
    return "".join(letter if letter.isupper() else f"{factor}{letter}" for letter, factor in axes)


def trailing(layout: str, count: int) -> str | None:
    """Return the layout of the last `count` dimensions.

    Return None if they contain a block without its axis, which is not a layout.

    >>> trailing("NCHW", 2), trailing("NCHW", 0), trailing("NCHW4c", 2)
    ('HW', '', None)
    """
    dims = axes_of(layout)[rank(layout) - count :]
    letters = {letter for letter, _ in dims}
    return text_of(dims) if all(letter.upper() in letters for letter in letters) else None


def without(layout: str, letters: Iterable[str]) -> str:
    """Return a layout without the given axes and their blocks.

    >>> without("NCHW4c", "HW"), without("NC", "NC")
    ('NC4c', '')
    """
    removed = set(letters)
    return text_of(dim for dim in axes_of(layout) if dim[0].upper() not in removed)


@cache
def expanded(source: str, target: str) -> str:
    """Return `source`, preceded by the axes of `target` that it does not contain.

    >>> expanded("W", "NHWC"), expanded("NCHW", "NHWC")
    ('NHCW', 'NCHW')
    """
    return "".join(letter for letter in primal(target) if letter not in primal(source)) + source


def can_change(shape: Sequence[Dim], source: str, target: str) -> bool:
    """Return whether a tensor of a shape can be converted to another layout.

    It can if the layouts have the same axes and the block sizes divide them.

    >>> can_change((1, 8, 5, 5), "NCHW", "NHWC4c"), can_change((1, 6, 5, 5), "NCHW", "NCHW4c")
    (True, False)
    """
    return source == target or _can_change(tuple(shape), source, target)


@lru_cache(maxsize=1024)
def _can_change(shape: tuple[Dim, ...], source: str, target: str) -> bool:
    whole = expanded(source, target)
    ones: tuple[Dim, ...] = (1,) * (rank(whole) - rank(source))
    try:
        convert_shape((*ones, *shape), parse_layout(whole), parse_layout(target))
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the layout of a tensor from that of the original program to another."""

    source: str
    """The layout in the original program."""
    target: str
    """The new layout."""

    def letter(self, axis: int) -> str:
        """Return the letter of an axis of the source layout."""
        return axes_of(self.source)[axis][0]

    def whole_axis(self, axis: int) -> int | None:
        """Return the new position of an axis of the source layout.

        Return None if the axis is a block, or is split in one of the two layouts.
        """
        letter = self.letter(axis)
        return None if self.splits(letter) else index(self.target, letter)

    def splits(self, letters: Iterable[str]) -> bool:
        """Return whether an axis is split in one of the layouts, or missing from one."""
        capitals = {letter.upper() for letter in letters}
        in_both = capitals <= set(primal(self.target)) & set(primal(self.source))
        return not in_both or is_split(self.source, capitals) or is_split(self.target, capitals)

    def whole_axes(self, axes: Iterable[int]) -> tuple[int, ...] | None:
        """Return the new positions of axes of the source layout, or None if one is split."""
        positions = [self.whole_axis(axis) for axis in axes]
        known = tuple(position for position in positions if position is not None)
        return known if len(known) == len(positions) else None
