"""Workers of a batch: lazily started, in time slices, isolated from each other."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st

import apass
from apass import PassContext, module_pass, optimize_all, optimize_stream
from apass.concurrency import scheduler
from apass.errors import PassCancelledError
from apass.instruments import PassTimingInstrument
from tests.helpers.amounts import amount
from tests.helpers.context_state import state_of

Module = dict[str, Any]

VARIABLE: ContextVar[object] = ContextVar("tests_batch_workers", default="default")


@module_pass(opt_level=0)
def Same(mod: Module, ctx: PassContext) -> Module:
    return mod


@module_pass(opt_level=0)
async def Work(mod: Module, ctx: PassContext) -> Module:
    """Suspend `suspend` times, then fail or return a new module."""
    for _ in range(mod["suspend"]):
        await checkpoint()
    if mod["fails"]:
        raise ValueError(mod["f"])
    return {"f": -mod["f"]}


def module_of(f: int, suspend: int, fails: bool) -> Module:
    return {"f": f, "suspend": suspend, "fails": fails}


MODULES = st.lists(st.builds(module_of, st.integers(), st.integers(0, 4), st.booleans()), max_size=30)


async def in_a_loop(modules: list[Module]) -> list[object]:
    """Return the results and errors of a loop over the modules."""
    results: list[object] = []
    for mod in modules:
        try:
            results.append(await Work(mod))
        except ValueError as error:
            results.append(repr(error))
    return results


def shown(outcome: apass.batch.Outcome[Module]) -> object:
    return outcome.module if outcome.error is None else repr(outcome.error)


@settings(max_examples=amount(40))
@given(
    modules=MODULES,
    limit=st.none() | st.integers(1, 8),
    kind=st.sampled_from(["list", "generator", "mapping", "async"]),
    pauses=st.integers(0, 3),
)
def test_outcomes_equal_those_of_a_loop(
    backend: str, modules: list[Module], limit: int | None, kind: str, pauses: int
) -> None:
    async def arrivals() -> AsyncIterator[Module]:
        for mod in modules:
            for _ in range(mod["suspend"] % 2):
                await checkpoint()
            yield mod

    async def main() -> None:
        source: Any = {
            "list": modules,
            "generator": iter(modules),
            "mapping": dict(enumerate(modules)),
            "async": arrivals(),
        }[kind]
        found: dict[int, object] = {}
        async with optimize_stream(source, Work, limit=limit) as outcomes:
            async for outcome in outcomes:
                found[outcome.name] = shown(outcome)
                for _ in range(pauses):
                    await checkpoint()
        expected = await in_a_loop(modules)
        assert found == dict(enumerate(expected))
        assert [*map(shown, await optimize_all(modules, Work, limit=limit, errors="collect"))] == expected

    anyio.run(main, backend=backend)


@pytest.mark.anyio
async def test_modules_share_at_most_limit_tasks() -> None:
    tasks: set[int] = set()

    @module_pass(opt_level=0)
    async def Note(mod: Module, ctx: PassContext) -> Module:
        tasks.add(anyio.get_current_task().id)
        return mod

    await optimize_all([{"f": 1}] * 1000, Note, limit=10)
    assert len(tasks) <= 10


@pytest.mark.anyio
@pytest.mark.parametrize("limit", [1, 5, None])
async def test_waiting_passes_wait_together(limit: int | None) -> None:
    expected = limit or 20
    inside = most = 0
    full = anyio.Event()

    @module_pass(opt_level=0)
    async def Meet(mod: Module, ctx: PassContext) -> Module:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == expected:
            full.set()
        await full.wait()
        inside -= 1
        return mod

    await optimize_all([{"f": 1}] * 20, Meet, limit=limit)
    assert most == expected


@pytest.mark.anyio
async def test_source_is_not_read_ahead_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    # A worker whose time slice is over yields between taking a module and running its pass.
    monkeypatch.setattr(scheduler, "SLICE_SECONDS", float("inf"))
    requested = 0
    ahead: list[int] = []

    def modules() -> Iterator[Module]:
        nonlocal requested
        for requested in range(1, 101):
            yield {"f": requested}

    @module_pass(opt_level=0)
    async def Note(mod: Module, ctx: PassContext) -> Module:
        ahead.append(requested - mod["f"])
        return mod

    await optimize_all(modules(), Note, limit=None)
    assert ahead == [0] * 100


@pytest.mark.anyio
@pytest.mark.parametrize("suspends", [0, 1])
async def test_modules_do_not_see_contextvars_of_others(suspends: int) -> None:
    seen: list[object] = []

    @module_pass(opt_level=0)
    async def Leave(mod: Module, ctx: PassContext) -> Module:
        seen.append(VARIABLE.get())
        VARIABLE.set(mod["f"])
        for _ in range(suspends * mod["f"] % 3):
            await checkpoint()
        assert VARIABLE.get() == mod["f"]
        run = apass.current_run()
        assert run is not None
        assert run.module == str(mod["f"])
        return mod

    await optimize_all([{"f": index} for index in range(50)], Leave, limit=7)
    assert (seen, VARIABLE.get()) == (["default"] * 50, "default")


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [False, True])
async def test_modules_see_contextvars_of_the_source(is_async: bool) -> None:
    seen: dict[int, object] = {}

    def modules() -> Iterator[Module]:
        for index in range(10):
            VARIABLE.set(index)
            yield {"f": index}

    async def arrivals() -> AsyncIterator[Module]:
        for mod in modules():
            await checkpoint()
            yield mod

    @module_pass(opt_level=0)
    async def Note(mod: Module, ctx: PassContext) -> Module:
        seen[mod["f"]] = VARIABLE.get()
        return mod

    source: Any = arrivals() if is_async else modules()
    async with optimize_stream(source, Note, limit=3) as outcomes:
        assert len([outcome async for outcome in outcomes]) == 10
    assert (seen, VARIABLE.get()) == ({index: index for index in range(10)}, "default")


@pytest.mark.anyio
async def test_async_source_runs_in_one_task() -> None:
    tasks: set[int] = set()

    async def arrivals() -> AsyncIterator[Module]:
        for index in range(20):
            tasks.add(anyio.get_current_task().id)
            await checkpoint()
            yield {"f": index, "suspend": index % 3, "fails": False}
        tasks.add(anyio.get_current_task().id)

    async with optimize_stream(arrivals(), Work, limit=3) as outcomes:
        assert len([outcome async for outcome in outcomes]) == 20
    assert len(tasks) == 1


async def count_rounds(rounds: list[int]) -> None:
    """Count the rounds of the event loop."""
    while True:
        rounds[0] += 1
        await checkpoint()


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [False, True])
async def test_loop_runs_between_modules_that_never_suspend(is_async: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "SLICE_SECONDS", -1.0)
    rounds = [0]
    modules = [{"f": index} for index in range(200)]

    async def arrivals() -> AsyncIterator[Module]:
        for mod in modules:
            yield mod

    async with PassContext(), anyio.create_task_group() as group:
        group.start_soon(count_rounds, rounds)
        source: Any = arrivals() if is_async else modules
        async with optimize_stream(source, Same, limit=None) as outcomes:
            assert len([outcome async for outcome in outcomes]) == 200
        group.cancel_scope.cancel()
    assert rounds[0] >= 100


@pytest.mark.anyio
async def test_loop_runs_between_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = [0]
    async with PassContext() as ctx, anyio.create_task_group() as group:
        async with optimize_stream([{"f": index} for index in range(200)], Same, limit=None) as outcomes:
            await anyio.wait_all_tasks_blocked()
            monkeypatch.setattr(scheduler, "SLICE_SECONDS", -1.0)
            state_of(ctx).scheduler.slice_ends = 0.0
            group.start_soon(count_rounds, rounds)
            assert len([outcome async for outcome in outcomes]) == 200
        group.cancel_scope.cancel()
    assert rounds[0] >= 100


@pytest.mark.anyio
async def test_no_module_starts_in_a_cancelled_scope() -> None:
    started: list[int] = []

    @module_pass(opt_level=0)
    async def HideCancellation(mod: Module, ctx: PassContext) -> Module:
        started.append(mod["f"])
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError(mod["f"])

    with anyio.move_on_after(60) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(optimize_all, [{"f": index} for index in range(1000)], HideCancellation)
            await anyio.wait_all_tasks_blocked()
            assert len(started) == 256
            scope.cancel()
    assert (scope.cancelled_caught, len(started)) == (True, 256)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_natively_cancelled_task_runs_no_further_module() -> None:
    requests: list[int] = []

    @module_pass(opt_level=0)
    async def CancelItself(mod: Module, ctx: PassContext) -> Module:
        task = asyncio.current_task()
        assert task is not None
        requests.append(task.cancelling())
        if mod["f"] % 2:
            task.cancel()
        await checkpoint()
        return mod

    done = await optimize_all([{"f": index} for index in range(8)], CancelItself, limit=2, errors="collect")
    assert [type(one.error) for one in done] == [type(None), PassCancelledError] * 4
    assert requests == [0] * 8


@pytest.mark.anyio
async def test_idle_workers_hold_no_module() -> None:
    alive = 0

    class Counted(Module):
        def __init__(self) -> None:
            nonlocal alive
            super().__init__(f=0, suspend=2, fails=False)
            alive += 1

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    more = anyio.Event()

    async def arrivals() -> AsyncGenerator[Module, None]:
        for _ in range(20):
            yield Counted()
        more.set()
        await anyio.sleep_forever()

    async with aclosing(arrivals()) as source, optimize_stream(source, Work, limit=5) as outcomes:
        for _ in range(20):
            await anext(outcomes)
        await more.wait()
        await anyio.wait_all_tasks_blocked()
        assert alive == 0


@pytest.mark.anyio
async def test_failure_hooks_see_contextvars_of_the_pass() -> None:
    class Waits:
        async def run_after_pass_failed(self, mod: Module, info: object, error: BaseException) -> None:
            await checkpoint()

    @module_pass(opt_level=0, name="Fail")
    async def Fail(mod: Module, ctx: PassContext) -> Module:
        raise ValueError("no")

    # Its hook runs after one that suspends, and resets a contextvar that its first hook has set.
    timing = PassTimingInstrument()
    async with PassContext(instruments=[Waits(), timing]):
        await optimize_all([{"f": 1}], Fail, errors="collect", limit=1)
    assert [(item.name, item.calls, item.failed) for item in timing.profile()] == [("Fail", 1, 1)]
