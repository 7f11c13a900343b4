"""Questions on the names of layouts: where an axis stands, which are split, what is left without some.

Here "" is the layout of a scalar, beside those that `parse_layout` knows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from apass.relay.op.define.layout import convert_shape, parse_layout
from apass.relay.ty import Dim

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
    """Return each dimension's letter and factor.

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
    """Return the place of a letter, -1 if it is not there."""
    return next((place for place, (name, _) in enumerate(axes_of(layout)) if name == letter), -1)


def is_split(layout: str, letters: Iterable[str]) -> bool:
    """Tell whether a block is split off one of some axes.

    >>> is_split("NCHW4c", "NC"), is_split("NCHW4c", "HW")
    (True, False)
    """
    return any(index(layout, letter.lower()) >= 0 for letter in letters)


def text_of(axes: Iterable[tuple[str, int]]) -> str:
    """Return the layout of these dimensions."""
    return "".join(letter if letter.isupper() else f"{factor}{letter}" for letter, factor in axes)


def trailing(layout: str, count: int) -> str | None:
    """Return the layout of the last dimensions; None if that is none, as it has a block without its axis.

    >>> trailing("NCHW", 2), trailing("NCHW", 0), trailing("NCHW4c", 2)
    ('HW', '', None)
    """
    kept = axes_of(layout)[rank(layout) - count :]
    letters = {letter for letter, _ in kept}
    return text_of(kept) if all(letter.upper() in letters for letter in letters) else None


def without(layout: str, letters: Iterable[str]) -> str:
    """Return a layout without some axes and their blocks.

    >>> without("NCHW4c", "HW"), without("NC", "NC")
    ('NC4c', '')
    """
    gone = set(letters)
    return text_of(one for one in axes_of(layout) if one[0].upper() not in gone)


@cache
def expanded(source: str, target: str) -> str:
    """Return `source` with the axes of `target` in front that it has not.

    >>> expanded("W", "NHWC"), expanded("NCHW", "NHWC")
    ('NHCW', 'NCHW')
    """
    return "".join(letter for letter in primal(target) if letter not in primal(source)) + source


def can_change(shape: Sequence[Dim], source: str, target: str) -> bool:
    """Tell whether a tensor of a shape goes from one layout to another: the same axes, and blocks that divide.

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
    """A tensor that stands in another layout than the program was written for."""

    source: str
    """The layout that the program has it in."""
    target: str
    """The layout that it is in."""

    def letter(self, axis: int) -> str:
        """Return the letter of an axis of the program's layout."""
        return axes_of(self.source)[axis][0]

    def whole_axis(self, axis: int) -> int | None:
        """Return where an axis of the program's layout stands now; None if it is split, before or after, or a block."""
        letter = self.letter(axis)
        return None if self.splits(letter) else index(self.target, letter)

    def splits(self, letters: Iterable[str]) -> bool:
        """Tell whether one of some axes is not there or is split, in the one layout or in the other."""
        capitals = {letter.upper() for letter in letters}
        is_there = capitals <= set(primal(self.target)) & set(primal(self.source))
        return not is_there or is_split(self.source, capitals) or is_split(self.target, capitals)

    def whole_axes(self, axes: Iterable[int]) -> tuple[int, ...] | None:
        """Return where some axes of the program's layout stand now; None if one of them is split."""
        places = [self.whole_axis(axis) for axis in axes]
        known = tuple(place for place in places if place is not None)
        return known if len(known) == len(places) else None
