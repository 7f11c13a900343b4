"""`ddmin`: the failure remains, and every remaining part is necessary for it."""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from random import Random

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from apass.util.delta_debugging import ddmin

NUMBERS = st.sets(st.integers(0, 29), max_size=6)


def minimize(count: int, holds: Callable[[frozenset[int]], bool]) -> tuple[frozenset[int], int]:
    """Return the removed parts, and the number of tries."""
    tries: list[frozenset[int]] = []

    async def fails(removed: frozenset[int]) -> bool:
        tries.append(removed)
        return holds(removed)

    return anyio.run(ddmin, count, fails), len(tries)


@given(NUMBERS)
def test_ddmin_removes_all_unneeded_parts(needed: set[int]) -> None:
    removed, tries = minimize(30, lambda parts: not parts & needed)
    assert removed == frozenset(range(30)) - needed
    assert tries <= 8 * (len(needed) + 1) * math.ceil(math.log2(30))


@given(st.lists(NUMBERS.filter(bool), min_size=1, max_size=4))
def test_no_single_remaining_part_can_be_removed(sufficient: list[set[int]]) -> None:
    def holds(parts: frozenset[int]) -> bool:
        return any(not parts & needed for needed in sufficient)

    removed, _ = minimize(30, holds)
    assert holds(removed)
    assert not any(holds(removed | {part}) for part in set(range(30)) - removed)


def test_ddmin_removes_nothing_without_removable_parts() -> None:
    assert minimize(0, lambda parts: False) == (frozenset(), 0)
    assert minimize(1, lambda parts: False)[0] == frozenset()


@given(st.lists(NUMBERS.filter(bool), min_size=1, max_size=4), st.integers(2, 5), st.randoms(use_true_random=False))
def test_result_is_independent_of_jobs(sufficient: list[set[int]], jobs: int, random: Random) -> None:
    def holds(parts: frozenset[int]) -> bool:
        return any(not parts & needed for needed in sufficient)

    running: set[int] = set()

    async def fails(removed: frozenset[int]) -> bool:
        running.add(number := max(running, default=0) + 1)
        assert len(running) <= jobs
        try:
            for _ in range(random.randrange(4)):
                await checkpoint()
        finally:
            running.remove(number)
        return holds(removed)

    accepted: list[frozenset[int]] = []
    removed = anyio.run(partial(ddmin, 30, fails, jobs=jobs, accept=accepted.append))
    assert removed == minimize(30, holds)[0]
    assert accepted[-1:] == ([removed] if removed else [])
    assert all(smaller < larger for smaller, larger in pairwise(accepted))


def test_exception_of_parallel_test_is_raised_unchanged() -> None:
    async def fails(removed: frozenset[int]) -> bool:
        if 0 < len(removed) < 8:
            raise ValueError("cannot test")
        return False

    for jobs in (1, 3):
        with pytest.raises(ValueError, match="cannot test"):
            anyio.run(partial(ddmin, 8, fails, jobs=jobs))
