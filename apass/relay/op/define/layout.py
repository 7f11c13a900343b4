"""Layout strings such as NCHW, OIHW or NCHW8c: what they mean, and how shapes and arrays go from one to another."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from apass.relay.ir.ndarray import Array
from apass.relay.ty import Any, Dim

__all__ = ["Layout", "convert_array", "convert_shape", "parse_layout"]

_AXIS: Final = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of the dimensions of a tensor; `parse_layout` makes one.

    A capital letter is an axis; a factor with a small letter splits a block of that size off the axis of that name, so
    channel 11 of NCHW stands at C=1, c=3 of NCHW8c.

    >>> parse_layout("NCHW8c").axes
    (('N', 1), ('C', 1), ('H', 1), ('W', 1), ('c', 8))
    """

    name: str
    """The text of it."""
    axes: tuple[tuple[str, int], ...]
    """Each dimension's letter and factor; the factor of a capital letter is 1."""

    @property
    def primal(self) -> str:
        """The capital letters, in order."""
        return "".join(letter for letter, _ in self.axes if letter.isupper())

    @property
    def rank(self) -> int:
        """The number of dimensions of an array in this layout."""
        return len(self.axes)

    def factor(self, letter: str) -> int:
        """Return the size of the block that is split off an axis; 1 if none is."""
        return next((size for name, size in self.axes if name == letter.lower()), 1)

    def index(self, letter: str) -> int:
        """Return the place of a letter, -1 if it is not there."""
        return next((place for place, (name, _) in enumerate(self.axes) if name == letter), -1)

    def converts_to(self, other: "Layout") -> bool:
        """Tell whether the two have the same axes, in whatever order and however split."""
        return sorted(self.primal) == sorted(other.primal)

    def __str__(self) -> str:
        """Return the text of it."""
        return self.name


@cache
def parse_layout(text: str) -> Layout:
    """Return the layout that a text means.

    Raises:
        ValueError: if the text is not a layout: no axis at all, one axis twice, a block of an axis that is not there.

    """
    found = list(_AXIS.finditer(text))
    if not text or "".join(one.group() for one in found) != text:
        raise ValueError(f"{text!r} is not a layout; one is axes and blocks with a size, as NCHW or NCHW8c")
    axes = tuple((one[1] or one[3], int(one[2] or 1)) for one in found)
    letters = [letter for letter, _ in axes]
    if len(set(letters)) != len(letters):
        raise ValueError(f"layout {text!r} has an axis twice")
    orphans = [letter for letter in letters if letter.upper() not in letters]
    if orphans:
        raise ValueError(f"layout {text!r} has a block of {orphans[0].upper()}, but no axis {orphans[0].upper()}")
    return Layout(text, axes)


def convert_shape(shape: tuple[Dim, ...], src: Layout, dst: Layout) -> tuple[Dim, ...]:
    """Return the shape in layout `dst` of a tensor that has `shape` in layout `src`.

    Raises:
        ValueError: if the layouts have different axes, the rank is not that of `src`, or a block does not divide.

    >>> convert_shape((1, 16, 5, 6), parse_layout("NCHW"), parse_layout("NHWC4c"))
    (1, 5, 6, 4, 4)
    """
    _check(len(shape), src, dst)
    whole = {letter: _whole(shape, src, letter) for letter in src.primal}
    return tuple(_part(whole[letter.upper()], dst, letter, size) for letter, size in dst.axes)


def _check(rank: int, src: Layout, dst: Layout) -> None:
    if not src.converts_to(dst):
        raise ValueError(f"layout {src} cannot be converted to {dst}: they do not have the same axes")
    if rank != src.rank:
        raise ValueError(f"layout {src} is one of {src.rank} dimensions, but the tensor has {rank}")


def _whole(shape: tuple[Dim, ...], layout: Layout, letter: str) -> Dim:
    dim = shape[layout.index(letter)]
    if layout.index(letter.lower()) < 0:
        return dim
    block = shape[layout.index(letter.lower())]
    if isinstance(block, int) and block != layout.factor(letter):
        raise ValueError(f"layout {layout} has blocks of {layout.factor(letter)}, the tensor of {block}")
    return dim * layout.factor(letter) if isinstance(dim, int) else Any()


def _part(whole: Dim, layout: Layout, letter: str, size: int) -> Dim:
    if letter.islower():
        return size
    factor = layout.factor(letter)
    if factor == 1:
        return whole
    if not isinstance(whole, int):
        return Any()
    if whole % factor:
        raise ValueError(
            f"axis {letter} is {whole} long, which the blocks of {factor} of layout {layout} do not divide"
        )
    return whole // factor


def convert_array(array: Array, src: Layout, dst: Layout) -> Array:
    """Return the array, which is in layout `src`, in layout `dst`; a view of it where that is possible.

    Raises:
        ValueError: as `convert_shape`.

    >>> import numpy as np
    >>> convert_array(np.zeros((2, 5, 6, 3)), parse_layout("NHWC"), parse_layout("NCHW")).shape
    (2, 3, 5, 6)
    """
    _check(array.ndim, src, dst)
    if src.axes == dst.axes:
        return array
    whole = _joined(array, src)
    return _split(whole.transpose([src.primal.index(letter) for letter in dst.primal]), dst)


def _joined(array: Array, src: Layout) -> Array:
    order = [src.index(one) for letter in src.primal for one in (letter, letter.lower()) if src.index(one) >= 0]
    whole = tuple(_whole(array.shape, src, letter) for letter in src.primal)
    return array.transpose(order).reshape([dim for dim in whole if isinstance(dim, int)])


def _split(array: Array, dst: Layout) -> Array:
    order: list[str] = []
    sizes: list[int] = []
    for letter, length in zip(dst.primal, array.shape, strict=True):
        block = [letter.lower()] if dst.index(letter.lower()) >= 0 else []
        part = _part(length, dst, letter, 1)
        sizes += [part if isinstance(part, int) else length, *(dst.factor(letter) for _ in block)]
        order += [letter, *block]
    return array.reshape(sizes).transpose([order.index(letter) for letter, _ in dst.axes])
