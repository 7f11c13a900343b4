"""Pauses of several modules, cancellation, and the end of the iteration."""

from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

import apass
from apass import PassContext, Sequential
from apass.instruments import Pause, PauseInstrument
from tests.helpers.pauses import Add, Square, run_paused

pytestmark = pytest.mark.anyio

Module = dict[str, int]

PIPELINE = Sequential([Add(), Square(), Add(5)])


async def taken(pauses: PauseInstrument) -> Pause:
    """Return the next pause."""
    pause = await pauses.next_pause()
    assert pause is not None
    return pause


@pytest.mark.parametrize("others", ["run", "stop"])
async def test_other_modules_run_or_stop(others: Any) -> None:
    results: dict[str, Module] = {}
    pauses = PauseInstrument(["module:a"], others)

    async def run(name: str) -> None:
        results[name] = await PIPELINE.run({"f": 1}, name=name)

    async with PassContext(instruments=[pauses]), anyio.create_task_group() as tasks:
        tasks.start_soon(run_until_paused, pauses, results, others)
        tasks.start_soon(run, "a")
        tasks.start_soon(run, "b")
    assert results == {"a": {"f": 9}, "b": {"f": 9}}


async def run_until_paused(pauses: PauseInstrument, results: dict[str, Module], others: str) -> None:
    """Take the pause, and check which modules have ended in it."""
    pause = await taken(pauses)
    await anyio.wait_all_tasks_blocked()
    assert list(results) == (["b"] if others == "run" else [])
    pause.continue_()


async def test_stopped_modules_run_when_others_may() -> None:
    pauses = PauseInstrument(["module:*"], "stop")

    async def run(name: str) -> None:
        await PIPELINE.run({"f": 1}, name=name)

    async with pauses, PassContext(instruments=[pauses]), anyio.create_task_group() as tasks:
        tasks.start_soon(run, "a")
        await taken(pauses)
        tasks.start_soon(run, "b")
        await anyio.wait_all_tasks_blocked()
        pauses.others = "run"
        await anyio.wait_all_tasks_blocked()
        assert [pause.position.module for pause in pauses.open_pauses] == ["a", "b"]
        pauses.close()


async def test_others_stop_where_next_pass_begins_or_ends() -> None:
    reached: list[str] = []

    class Note(apass.PassInstrument):
        def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
            reached.append(f"{apass.current_module_name()}: {info.name}")

    pauses = PauseInstrument(["module:a"], "stop")

    async def run(name: str) -> None:
        await PIPELINE.run({"f": 1}, name=name)

    async with PassContext(instruments=[Note(), pauses]), anyio.create_task_group() as tasks:
        tasks.start_soon(run, "a")
        pause = await taken(pauses)
        tasks.start_soon(run, "b")
        await anyio.wait_all_tasks_blocked()
        assert reached == ["a: sequential", "b: sequential"]
        pauses.others = "run"
        pause.next()
        pause = await taken(pauses)
        assert pause.stage == "after"
        await anyio.wait_all_tasks_blocked()
        assert reached.count("b: pauses.Add") == 2
        pause.continue_()


async def test_modules_step_on_their_own() -> None:
    def step(pause: Pause) -> None:
        pause.step() if pause.position.module == "a" and pause.stage == "before" else pause.continue_()

    run = await run_paused(PIPELINE, {"a": {"f": 1}, "b": {"f": 2}}, PauseInstrument(["module:*"]), [step] * 4)
    assert [line for line in run.log if line.startswith("b")] == ["b: before 0:sequential module:*"]
    assert [line for line in run.log if line.startswith("a")] == [
        "a: before 0:sequential module:*",
        "a: before 0:sequential/0:pauses.Add step",
        "a: after 0:sequential/0:pauses.Add step",
    ]


async def test_concurrent_pauses_are_open_together() -> None:
    pauses = PauseInstrument(["module:*"])

    async def follow() -> None:
        await anyio.wait_all_tasks_blocked()
        first, second = pauses.open_pauses
        assert {first.position.module, second.position.module} == {"a", "b"}
        second.continue_()
        assert await taken(pauses) is first
        first.continue_()
        assert await pauses.next_pause() is None

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        async with PassContext(instruments=[pauses]):
            await apass.optimize_all({"a": {"f": 1}, "b": {"f": 1}}, PIPELINE)


@pytest.mark.both_loops
async def test_cancellation_ends_pauses() -> None:
    pauses, seen = PauseInstrument(["pass:*"]), list[Pause]()
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            async with PassContext(instruments=[pauses]):
                await PIPELINE({"f": 1})

        tasks.start_soon(run)
        seen.append(await taken(pauses))
        tasks.cancel_scope.cancel()
    (pause,) = seen
    assert not pause.is_open
    assert pauses.open_pauses == ()
    with pytest.raises(apass.errors.PauseError, match="the pause has ended"):
        pause.step()
    assert await pauses.next_pause() is None


@pytest.mark.both_loops
async def test_cancelled_pause_is_not_taken() -> None:
    pauses = PauseInstrument(["pass:*"])
    async with PassContext(instruments=[pauses]):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(PIPELINE, {"f": 1})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(0) as scope:
            await pauses.next_pause()
        assert scope.cancelled_caught


async def test_leaving_instrument_continues_modules() -> None:
    results: list[Module] = []

    async def run() -> None:
        async with PassContext(instruments=[pauses]):
            results.append(await PIPELINE({"f": 1}))

    async with anyio.create_task_group() as tasks, PauseInstrument(["pass:*"], "stop") as pauses:
        tasks.start_soon(run)
        await taken(pauses)
    assert results == [{"f": 9}]


@pytest.mark.both_loops
async def test_failed_reader_cancels_run() -> None:
    async def fail(pauses: PauseInstrument) -> None:
        await taken(pauses)
        raise LookupError

    async def run() -> None:
        pauses = PauseInstrument(["pass:*"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fail, pauses)
            async with PassContext(instruments=[pauses]):
                await PIPELINE({"f": 1})

    with pytest.raises(ExceptionGroup) as caught:
        await run()
    assert isinstance(caught.value.exceptions[0], LookupError)


async def test_instrument_serves_several_contexts() -> None:
    pauses = PauseInstrument(["pass:pauses.Square"])
    for _ in range(2):
        run = await run_paused_once(pauses)
        assert [text.split("/")[1] for text in run] == ["1:pauses.Square"]


async def run_paused_once(pauses: PauseInstrument) -> list[str]:
    """Run the pipeline in a new context, and return the positions of its pauses."""
    positions: list[str] = []

    async def follow() -> None:
        async for pause in pauses:
            positions.append(pause.position.text)
            pause.continue_()

    async with anyio.create_task_group() as tasks, PassContext(instruments=[pauses]):
        tasks.start_soon(follow)
        await PIPELINE({"f": 1})
    return positions


async def test_twice_listed_instrument_pauses_once() -> None:
    pauses = PauseInstrument(["pass:pauses.Square"])
    lines: list[str] = []

    async def follow() -> None:
        async for pause in pauses:
            lines.append(pause.stage)
            pause.next()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        async with PassContext(instruments=[pauses, pauses]):
            assert await PIPELINE({"f": 1}) == {"f": 9}
    assert lines == ["before", "after", "before", "after", "after"]


def run_elsewhere(mod: Module) -> Module:
    """Run a pass in an event loop of its own."""
    return anyio.run(Add(), mod)


async def test_passes_in_other_threads_run_on() -> None:
    pauses = PauseInstrument(["pass:pauses.Add"])

    @apass.module_pass(opt_level=0)
    async def Elsewhere(mod: Module, ctx: PassContext) -> Module:
        return await run_sync(run_elsewhere, mod)

    async with PassContext(instruments=[pauses]):
        assert await Elsewhere({"f": 1}) == {"f": 2}


async def test_worker_refuses_instrument() -> None:
    async with PassContext(instruments=[PauseInstrument()]):
        with pytest.raises(apass.errors.PassContextError, match="it cannot pause a pass in another process"):
            await apass.optimize_all({"a": {"f": 1}}, PIPELINE, executor="process")


async def test_without_breakpoints_nothing_pauses() -> None:
    pauses = PauseInstrument()
    async with PassContext(instruments=[pauses]):
        assert await PIPELINE({"f": 1}) == {"f": 9}
        await checkpoint()
    assert await pauses.next_pause() is None
