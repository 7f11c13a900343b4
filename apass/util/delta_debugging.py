"""Shrinking: what of a module can be left out, and the search for how much of it; for adapters and for `reduce`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

__all__ = ["Shrinking", "ddmin"]

ModT = TypeVar("ModT")


@dataclass(frozen=True, slots=True)
class Shrinking(Generic[ModT]):
    """One way to make a module smaller: parts of it that can be left out, or be put simpler, each or many at once."""

    what: str
    """What the parts are, in the plural: `"functions"`."""
    count: int
    """How many there are."""
    without: Callable[[frozenset[int]], ModT]
    """Returns the module without the parts of these numbers, from 0; raises any exception where there is none."""


async def ddmin(count: int, fails: Callable[[frozenset[int]], Awaitable[bool]]) -> frozenset[int]:
    """Return which of so many parts can be left out at once while `fails`, which is given those left out, holds.

    None of the parts that are kept can be left out by itself besides. Zeller's delta debugging: halves first, then
    smaller shares.

    >>> import anyio
    >>> async def needs_3_and_6(left_out):
    ...     return not left_out & {3, 6}
    >>> sorted(anyio.run(ddmin, 8, needs_3_and_6))
    [0, 1, 2, 4, 5, 7]
    """
    every = frozenset(range(count))
    if not count or await fails(every):
        return every
    kept, shares = list(range(count)), 2
    while len(kept) >= 2:
        parts = _parts(kept, min(shares, len(kept)))
        smaller = await _smaller(parts, every, fails)
        if smaller is not None:
            kept, shares = smaller
        elif shares >= len(kept):
            break
        else:
            shares *= 2
    return every - set(kept)


async def _smaller(
    parts: Sequence[list[int]], every: frozenset[int], fails: Callable[[frozenset[int]], Awaitable[bool]]
) -> tuple[list[int], int] | None:
    """Return a part, or all without a part, that is enough, and in how many shares to go on; None if none is."""
    for part in parts:
        if await fails(every - set(part)):
            return part, 2
    if len(parts) > 2:
        for part in parts:
            rest = [one for other in parts if other is not part for one in other]
            if await fails(every - set(rest)):
                return rest, len(parts) - 1
    return None


def _parts(kept: list[int], shares: int) -> list[list[int]]:
    """Return the numbers in so many shares, none of them empty."""
    ends = [len(kept) * place // shares for place in range(shares + 1)]
    return [kept[start:end] for start, end in pairwise(ends)]
