"""Delta debugging: removable parts of a module, and the search for a minimum.

Adapters describe the parts with `Shrinking`; `apass.debugging.reduction` searches with `ddmin`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import anyio

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


async def ddmin(
    count: int,
    fails: Callable[[frozenset[int]], Awaitable[bool]],
    *,
    jobs: int = 1,
    accept: Callable[[frozenset[int]], object] | None = None,
) -> frozenset[int]:
    """Return the parts that can be removed together while the failure remains.

    The result is 1-minimal: no single remaining part can be removed as well. This is Zeller's ddmin algorithm, which
    tries halves first, then smaller shares. The result does not depend on `jobs`.

    Parameters:
        count: the number of parts.
        fails: returns whether the failure remains without the given parts.
        jobs: number of calls of `fails` that run at once. Some results may not be needed.
        accept: called with each larger set of parts that can be removed.

    >>> import anyio
    >>> async def needs_3_and_6(removed):
    ...     return not removed & {3, 6}
    >>> sorted(anyio.run(ddmin, 8, needs_3_and_6))
    [0, 1, 2, 4, 5, 7]
    """
    every = frozenset(range(count))
    remaining, granularity = list(range(count)), 2
    if count and await fails(every):
        remaining = []
        if accept is not None:
            accept(every)
    while len(remaining) >= 2:
        shares = _split(remaining, min(granularity, len(remaining)))
        candidates = [(share, 2) for share in shares]
        # The complement of one of two shares is the other.
        if len(shares) > 2:
            complements = [[number for other in shares if other is not share for number in other] for share in shares]
            candidates += [(complement, len(shares) - 1) for complement in complements]
        removals = [every - set(kept) for kept, _ in candidates]
        smaller = await _first_true(fails, removals, jobs)
        if smaller is not None:
            remaining, granularity = candidates[smaller]
            if accept is not None:
                accept(removals[smaller])
        elif granularity >= len(remaining):
            break
        else:
            granularity *= 2
    return every - set(remaining)


async def _first_true(
    test: Callable[[frozenset[int]], Awaitable[bool]], arguments: Sequence[frozenset[int]], jobs: int
) -> int | None:
    """Return the number of the first argument with a true test.

    `jobs` tests run at once. Those of later arguments are cancelled. The first exception of a test is raised.
    """
    found: int | None = None
    failure: Exception | None = None
    scopes: dict[int, anyio.CancelScope] = {}
    numbers = iter(range(len(arguments)))

    async def work() -> None:
        nonlocal found
        for number in numbers:
            with anyio.CancelScope() as scopes[number]:
                is_true = await test(arguments[number])
                if is_true and (found is None or number < found):
                    found = number
            if found is not None:
                for later, scope in scopes.items():
                    if later > found:
                        scope.cancel()
                return

    async def work_in_group() -> None:
        nonlocal failure
        try:
            await work()
        except Exception as error:
            # Raised below: a task group would wrap it in a group, which callers do not expect.
            failure = failure or error
            group.cancel_scope.cancel()

    if jobs == 1:
        await work()
        return found
    async with anyio.create_task_group() as group:
        for _ in range(min(jobs, len(arguments))):
            group.start_soon(work_in_group)
    if failure is not None:
        raise failure
    return found


def _split(numbers: list[int], count: int) -> list[list[int]]:
    """Return the numbers in `count` consecutive shares of similar size, none empty."""
    bounds = [len(numbers) * index // count for index in range(count + 1)]
    return [numbers[start:end] for start, end in pairwise(bounds)]
