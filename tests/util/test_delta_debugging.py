"""`ddmin`: what is left out leaves the failure, and nothing of what is kept can go by itself."""

import math
from collections.abc import Callable

import anyio
from hypothesis import given
from hypothesis import strategies as st

from apass.util.delta_debugging import ddmin

NUMBERS = st.sets(st.integers(0, 29), max_size=6)


def tried(count: int, holds: Callable[[frozenset[int]], bool]) -> tuple[frozenset[int], int]:
    """Return what was left out, and how many tries it took."""
    tries: list[frozenset[int]] = []

    async def fails(left_out: frozenset[int]) -> bool:
        tries.append(left_out)
        return holds(left_out)

    return anyio.run(ddmin, count, fails), len(tries)


@given(NUMBERS)
def test_all_that_is_not_needed_is_left_out(needed: set[int]) -> None:
    left_out, tries = tried(30, lambda gone: not gone & needed)
    assert left_out == frozenset(range(30)) - needed
    assert tries <= 8 * (len(needed) + 1) * math.ceil(math.log2(30))


@given(st.lists(NUMBERS.filter(bool), min_size=1, max_size=4))
def test_nothing_more_can_be_left_out_by_itself(enough: list[set[int]]) -> None:
    def holds(gone: frozenset[int]) -> bool:
        return any(not gone & needed for needed in enough)

    left_out, _ = tried(30, holds)
    assert holds(left_out)
    assert not any(holds(left_out | {one}) for one in set(range(30)) - left_out)


def test_of_nothing_nothing_is_left_out() -> None:
    assert tried(0, lambda gone: False) == (frozenset(), 0)
    assert tried(1, lambda gone: False)[0] == frozenset()
