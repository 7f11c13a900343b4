"""Layout strings such as NCHW or NCHW8c; conversion of shapes and arrays."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim

__all__ = ["Layout", "convert_array", "convert_shape", "parse_layout"]

_AXIS: Final = re.compile(r"([A-Z])|([1-9][0-9]*)([a-z])")


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of the dimensions of a tensor, created by `parse_layout`.

    A capital letter is an axis. A number with a small letter is a block of that size, split off the axis of that
    letter: channel 11 of NCHW is at C=1, c=3 of NCHW8c.

    >>> parse_layout("NCHW8c").axes
    (('N', 1), ('C', 1), ('H', 1), ('W', 1), ('c', 8))
    """

    name: str
    """The text of the layout."""
    axes: tuple[tuple[str, int], ...]
    """The letter and the factor of each dimension; the factor of a capital letter is 1."""

    @property
    def primal(self) -> str:
        """The capital letters, in order."""
        return "".join(letter for letter, _ in self.axes if letter.isupper())

    @property
    def rank(self) -> int:
        """The number of dimensions of an array in this layout."""
        return len(self.axes)

    def factor(self, letter: str) -> int:
        """Return the size of the block that is split off an axis, or 1 if it has none."""
        return next((size for name, size in self.axes if name == letter.lower()), 1)

    def index(self, letter: str) -> int:
        """Return the position of a letter, or -1 if the layout does not contain it."""
        return next((position for position, (name, _) in enumerate(self.axes) if name == letter), -1)

    def converts_to(self, other: "Layout") -> bool:
        """Return whether both layouts have the same axes, in any order and blocking."""
        return sorted(self.primal) == sorted(other.primal)

    def __str__(self) -> str:
        """Return the text of the layout."""
        return self.name


@cache
def parse_layout(text: str) -> Layout:
    """Return the layout for a text.

    Raises:
        ValueError: if the text is empty, has an axis twice, or has a block of an axis that it does not contain.

    """
    matches = list(_AXIS.finditer(text))
    if not text or "".join(match.group() for match in matches) != text:
        raise ValueError(f"{text!r} is not a layout; expected axes and blocks with a size, such as NCHW or NCHW8c")
    axes = tuple((match[1] or match[3], int(match[2] or 1)) for match in matches)
    letters = [letter for letter, _ in axes]
    if len(set(letters)) != len(letters):
        raise ValueError(f"layout {text!r} contains an axis twice")
    orphans = [letter for letter in letters if letter.upper() not in letters]
    if orphans:
        raise ValueError(f"layout {text!r} has a block of {orphans[0].upper()}, but no axis {orphans[0].upper()}")
    return Layout(text, axes)


def convert_shape(shape: tuple[Dim, ...], src: Layout, dst: Layout) -> tuple[Dim, ...]:
    """Return the shape of a tensor in layout `dst`, given its shape in layout `src`.

    Raises:
        ValueError: if the layouts have different axes, `shape` has another rank than `src`, or the size of a block
            does not divide its axis.

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
        raise ValueError(f"layout {src} has {src.rank} dimensions, but the tensor has {rank}")


def _whole(shape: tuple[Dim, ...], layout: Layout, letter: str) -> Dim:
    dim = shape[layout.index(letter)]
    if layout.index(letter.lower()) < 0:
        return dim
    block = shape[layout.index(letter.lower())]
    if isinstance(block, int) and block != layout.factor(letter):
        raise ValueError(f"layout {layout} has blocks of {layout.factor(letter)}, but the tensor has blocks of {block}")
    return dim * layout.factor(letter)


def _part(whole: Dim, layout: Layout, letter: str, size: int) -> Dim:
    if letter.islower():
        return size
    factor = layout.factor(letter)
    if factor == 1:
        return whole
    if isinstance(whole, int) and whole % factor:
        raise ValueError(
            f"axis {letter} has size {whole}, not a multiple of the block size {factor} of layout {layout}"
        )
    return whole // factor


def convert_array(array: Array, src: Layout, dst: Layout) -> Array:
    """Return an array converted from layout `src` to layout `dst`; a view if possible.

    Raises:
        ValueError: as `convert_shape`.

    >>> import numpy as np
    >>> convert_array(np.zeros((2, 5, 6, 3)), parse_layout("NHWC"), parse_layout("NCHW")).shape
    (2, 3, 5, 6)
    """
    _check(array.ndim, src, dst)
    if src.axes == dst.axes:
        return array
    whole = _merge_blocks(array, src)
    return _split_blocks(whole.transpose([src.primal.index(letter) for letter in dst.primal]), dst)


def _merge_blocks(array: Array, src: Layout) -> Array:
    letters = [letter for capital in src.primal for letter in (capital, capital.lower())]
    order = [src.index(letter) for letter in letters if src.index(letter) >= 0]
    whole = tuple(_whole(array.shape, src, letter) for letter in src.primal)
    return array.transpose(order).reshape([dim for dim in whole if isinstance(dim, int)])


def _split_blocks(array: Array, dst: Layout) -> Array:
    order: list[str] = []
    sizes: list[int] = []
    for letter, length in zip(dst.primal, array.shape, strict=True):
        block = [letter.lower()] if dst.index(letter.lower()) >= 0 else []
        part = _part(length, dst, letter, 1)
        sizes += [part if isinstance(part, int) else length, *(dst.factor(letter) for _ in block)]
        order += [letter, *block]
    return array.reshape(sizes).transpose([order.index(letter) for letter, _ in dst.axes])
