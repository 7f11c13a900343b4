"""`MinimumPoint`: the best module of all rounds, and when they end."""

from collections.abc import Callable, Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import MinimumPoint, PassContext
from apass.errors import PassResultError
from apass.runner.changes import CHANGES, ChangeLog
from tests.helpers.combinators import Module, error_of, stepping, waiting


def rated(keys: Sequence[int]) -> Callable[[Module], int]:
    """Return a key function that looks the number of a module up."""

    def key(mod: Module) -> int:
        index: int = mod["f"]
        return keys[index]

    return key


@given(
    table=st.lists(st.integers(0, 7), min_size=8, max_size=8),
    keys=st.lists(st.integers(0, 3), min_size=8, max_size=8),
    start=st.integers(0, 7),
    depth=st.integers(1, 5),
    times=st.none() | st.integers(1, 9),
)
def test_minimum_point_equals_a_plain_loop(
    backend: str, table: Sequence[int], keys: Sequence[int], start: int, depth: int, times: int | None
) -> None:
    async def key(mod: Module) -> int:
        await checkpoint()
        return rated(keys)(mod)

    best = state = start
    since = 0
    for _ in range(times or 100):
        if table[state] == state:
            break
        state = table[state]
        best, since = (state, 0) if keys[state] < keys[best] else (best, since + 1)
        if since == depth:
            break
    pass_ = MinimumPoint([stepping(table)], key, depth, times)
    assert apass.run(pass_, {"f": start}, backend=backend) == {"f": best}


@pytest.mark.anyio
async def test_input_is_returned_if_nothing_is_better() -> None:
    mod = {"f": 0}
    assert await MinimumPoint([stepping([1, 2, 3, 3])], key=lambda mod: mod["f"])(mod) is mod


@pytest.mark.anyio
async def test_rounds_go_on_from_worse_modules() -> None:
    keys = [5, 6, 7, 1, 9, 9, 9]
    pass_ = MinimumPoint([stepping([1, 2, 3, 4, 5, 6, 6])], key=rated(keys), backtrack_depth=3)
    assert await pass_({"f": 0}) == {"f": 3}
    pass_ = MinimumPoint([stepping([1, 2, 3, 4, 5, 6, 6])], key=rated(keys), backtrack_depth=2)
    assert await pass_({"f": 0}) == {"f": 0}


@pytest.mark.anyio
async def test_only_changes_up_to_the_best_count() -> None:
    log = ChangeLog()
    CHANGES.set(log)
    keys = [5, 4, 7, 7, 7]
    await MinimumPoint([stepping([1, 2, 3, 4, 4])], rated(keys), backtrack_depth=2)({"f": 0})
    CHANGES.set(None)
    assert log.changed == {"Step": 1}


@pytest.mark.anyio
async def test_key_that_cannot_be_ordered_raises() -> None:
    def unordered(mod: Module) -> float:
        return float("nan") if mod["f"] else 0

    error = await error_of(MinimumPoint([stepping([1, 1])], key=lambda mod: None), {"f": 0})
    assert isinstance(error, PassResultError)
    assert str(error) == "the key of pass 'MinimumPoint' returned None; return a value that can be ordered"
    assert error.__notes__ == ["in the key function, for the input module", "in pass 'MinimumPoint'"]
    error = await error_of(MinimumPoint([stepping([1, 1])], key=unordered), {"f": 0})
    assert error.__notes__ == ["in the key function, for the result of round 1", "in pass 'MinimumPoint'"]


@pytest.mark.anyio
async def test_budget_returns_the_best_so_far(idle_clock: None) -> None:
    keys = [5, 2, 4, 1, 0]

    async def step(mod: Module) -> Module:
        await anyio.sleep(1)
        return {"f": mod["f"] + 1}

    pass_ = MinimumPoint([waiting("Step", step)], key=rated(keys), budget=2.5)
    async with PassContext() as ctx:
        assert await pass_({"f": 0}) == {"f": 1}
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'MinimumPoint' ended in round 3: its budget of 2.5 s is over"
    ]
