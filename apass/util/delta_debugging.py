"""Delta debugging: removable parts of a module, and the search for a minimum.

Adapters describe the parts with `Shrinking`; `apass.debugging.reduce` searches with `ddmin`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

__all__ = ["Shrinking", "ddmin"]

ModT = TypeVar("ModT")


@dataclass(frozen=True, slots=True)
class Shrinking(Generic[ModT]):
    """One way to make a module smaller: by removing or simplifying any of its parts."""

    what: str
    """The kind of the parts, in the plural: `"functions"`."""
    count: int
    """The number of parts."""
    without: Callable[[frozenset[int]], ModT]
    """Returns the module without the parts of these numbers, from 0. Raises any exception if that is impossible."""


async def ddmin(count: int, fails: Callable[[frozenset[int]], Awaitable[bool]]) -> frozenset[int]:
    """Return the parts that can be removed together while the failure remains.

    The result is 1-minimal: no single remaining part can be removed as well. This is Zeller's ddmin algorithm, which
    tries halves first, then smaller shares.

    Parameters:
        count: the number of parts.
        fails: returns whether the failure remains without the given parts.

    >>> import anyio
    >>> async def needs_3_and_6(removed):
    ...     return not removed & {3, 6}
    >>> sorted(anyio.run(ddmin, 8, needs_3_and_6))
    [0, 1, 2, 4, 5, 7]
    """
    every = frozenset(range(count))
    if not count or await fails(every):
        return every
    remaining, granularity = list(range(count)), 2
    while len(remaining) >= 2:
        shares = _split(remaining, min(granularity, len(remaining)))
        smaller = await _find_smaller(shares, every, fails)
        if smaller is not None:
            remaining, granularity = smaller
        elif granularity >= len(remaining):
            break
        else:
            granularity *= 2
    return every - set(remaining)


async def _find_smaller(
    shares: Sequence[list[int]], every: frozenset[int], fails: Callable[[frozenset[int]], Awaitable[bool]]
) -> tuple[list[int], int] | None:
    """Return the first share or complement that still fails, or None.

    The second item is the granularity to continue with.
    """
    for share in shares:
        if await fails(every - set(share)):
            return share, 2
    # The complement of one of two shares is the other, which was tried above.
    if len(shares) > 2:
        for share in shares:
            complement = [number for other in shares if other is not share for number in other]
            if await fails(every - set(complement)):
                return complement, len(shares) - 1
    return None


def _split(numbers: list[int], count: int) -> list[list[int]]:
    """Return the numbers in `count` consecutive shares of similar size, none empty."""
    bounds = [len(numbers) * index // count for index in range(count + 1)]
    return [numbers[start:end] for start, end in pairwise(bounds)]
