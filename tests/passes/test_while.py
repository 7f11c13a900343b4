"""`While`: how many rounds run, and what limits them."""

from collections.abc import Sequence

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import PassContext, While
from apass.errors import PassResultError, PipelineCycleError
from apass.runner.changes import CHANGES, ChangeLog
from tests.helpers.combinators import Module, error_of, stepping, waiting


@given(
    table=st.lists(st.integers(0, 7), min_size=8, max_size=8),
    wanted=st.sets(st.integers(0, 7)),
    start=st.integers(0, 7),
    times=st.none() | st.integers(1, 9),
)
def test_while_equals_a_plain_loop(
    backend: str, table: Sequence[int], wanted: set[int], start: int, times: int | None
) -> None:
    async def predicate(mod: Module) -> bool:
        await checkpoint()
        return mod["f"] in wanted

    expected, rounds = start, 0
    while expected in wanted and rounds < (times or 100):
        expected, rounds = table[expected], rounds + 1
    try:
        result = apass.run(While(predicate, [stepping(table)], times), {"f": start}, backend=backend)
    except PipelineCycleError:
        assert (times, rounds, expected in wanted) == (None, 100, True)
    else:
        assert result == {"f": expected}
        assert times is not None or expected not in wanted


@pytest.mark.anyio
async def test_endless_while_raises() -> None:
    error = await error_of(While(lambda _: True, [stepping([0])]), {"f": 0})
    assert isinstance(error, PipelineCycleError)
    assert str(error) == (
        "pass 'While' did not end: its predicate is still true after round 100, the last one allowed; set `times` to "
        "the rounds that it may take, or correct the predicate"
    )


@pytest.mark.anyio
async def test_module_is_returned_if_predicate_is_false() -> None:
    mod = {"f": 1}
    assert await While(lambda _: False, [stepping([1, 2])])(mod) is mod


@pytest.mark.anyio
async def test_predicate_without_result_raises() -> None:
    error = await error_of(While(lambda _: None, [stepping([1])]), {"f": 0})
    assert isinstance(error, PassResultError)
    assert str(error) == "the predicate of pass 'While' returned None; return a bool"


@pytest.mark.anyio
async def test_budget_cancels_the_round_in_progress(idle_clock: None) -> None:
    cancelled: list[object] = []

    async def double(mod: Module) -> Module:
        try:
            await anyio.sleep(mod["f"])
        except anyio.get_cancelled_exc_class():
            cancelled.append(mod["f"])
            raise
        return {"f": 2 * mod["f"]}

    start = anyio.current_time()
    log = ChangeLog()
    CHANGES.set(log)
    async with PassContext() as ctx:
        assert await While(lambda _: True, [waiting("Double", double)], budget=10)({"f": 1}) == {"f": 8}
    CHANGES.set(None)
    assert anyio.current_time() - start == pytest.approx(10)
    assert cancelled == [8]
    assert log.changed == {"Double": 3}
    assert [one.message for one in ctx.diag_ctx.diagnostics] == [
        "pass 'While' ended in round 4: its budget of 10 s is over"
    ]


@pytest.mark.anyio
async def test_outer_cancellation_is_not_the_budget(idle_clock: None) -> None:
    async def forever(mod: Module) -> Module:
        await anyio.sleep_forever()
        return mod

    with anyio.move_on_after(2) as scope:
        await While(lambda _: True, [waiting("Slow", forever)], budget=10)({"f": 1})
    assert scope.cancelled_caught


@pytest.mark.anyio
async def test_round_that_ends_late_still_counts(idle_clock: None) -> None:
    async def stubborn(mod: Module) -> Module:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(20)
        return {"f": mod["f"] + 1}

    assert await While(lambda _: True, [waiting("Stubborn", stubborn)], budget=10)({"f": 0}) == {"f": 1}
