"""Breakpoints on waits, and what can be done with a pass that waits."""

from collections.abc import Callable
from time import sleep

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, Sequential
from apass.instruments import Pause, PauseInstrument
from tests.helpers.pauses import Add, run_paused

pytestmark = pytest.mark.anyio

Module = dict[str, int]


class Blocked(apass.ModulePass[Module], opt_level=0, name="pauses.Blocked"):
    """Waits for an event of the test, if `waits` is set."""

    waits: bool = True

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        if self.waits:
            with apass.waiting_for("a door"):
                await DOORS[-1].wait()
        return {**mod, "f": mod["f"] + 1}


DOORS: list[anyio.Event] = []


@pytest.fixture
def door() -> anyio.Event:
    """Return the event that the pass waits for."""
    DOORS.append(anyio.Event())
    return DOORS[-1]


def shown(pauses: list[Pause]) -> list[str]:
    """Return a line for each pause."""
    return [f"{pause.stage} {pause.info.name} {pause.reason} {','.join(pause.waits_for)}".strip() for pause in pauses]


async def test_wait_pauses_once(door: anyio.Event) -> None:
    def opened(pause: Pause) -> None:
        pause.next()
        door.set()

    run = await run_paused(Sequential([Blocked()]), {"m": {"f": 1}}, PauseInstrument(["wait:0.01"]), [opened])
    assert shown(run.pauses) == ["waiting pauses.Blocked wait:0.01 a door", "after pauses.Blocked next"]
    assert run.result == {"f": 2}


async def test_end_of_wait_ends_pause(door: anyio.Event) -> None:
    pauses = PauseInstrument(["wait:0.01"])

    async def open_door() -> None:
        pause = await pauses.next_pause()
        assert pause is not None
        door.set()
        assert await pauses.next_pause() is None
        assert not pause.is_open

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(open_door)
        async with PassContext(instruments=[pauses]):
            assert await Blocked()({"f": 1}) == {"f": 2}


def skip(pause: Pause) -> None:
    pause.skip()


def replace(pause: Pause) -> None:
    pause.replace({"f": 9})


def rerun(pause: Pause) -> None:
    pause.rerun({"waits": False})


@pytest.mark.parametrize(
    ("command", "result"), [(skip, {"f": 2}), (replace, {"f": 10}), (rerun, {"f": 3})], ids=["skip", "replace", "rerun"]
)
@pytest.mark.usefixtures("door")
@pytest.mark.both_loops
async def test_wait_is_cancelled(command: Callable[[Pause], None], result: Module) -> None:
    pipeline = Sequential([Blocked(), Add()])
    run = await run_paused(pipeline, {"m": {"f": 1}}, PauseInstrument(["wait:0.01"]), [command])
    assert run.result == result


@pytest.mark.parametrize("is_first", [False, True])
async def test_command_at_end_of_wait_counts(door: anyio.Event, is_first: bool) -> None:
    def command(pause: Pause) -> None:
        if is_first:
            pause.skip()
        door.set()
        if not is_first:
            pause.skip()

    run = await run_paused(Blocked(), {"m": {"f": 1}}, PauseInstrument(["wait:0.01"]), [command])
    assert run.result == {"f": 1}


async def test_wait_keeps_step_in_force(door: anyio.Event) -> None:
    pauses = PauseInstrument(["pass:pauses.Blocked", "wait:0.01"])
    lines: list[str] = []

    async def follow() -> None:
        async for pause in pauses:
            lines.append(pause.stage)
            if pause.stage == "before":
                pause.next()
            elif pause.stage == "waiting":
                door.set()
            else:
                pause.continue_()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        async with PassContext(instruments=[pauses]):
            assert await Blocked()({"f": 1}) == {"f": 2}
    assert lines == ["before", "waiting", "after"]


async def test_waiting_body_pauses_its_pass(door: anyio.Event) -> None:
    @apass.function_pass(opt_level=0)
    async def Slow(func: int, mod: Module, ctx: PassContext) -> int:
        with apass.waiting_for("a body"):
            await door.wait()
        return func

    run = await run_paused(Slow, {"m": {"f": 1, "g": 2}}, PauseInstrument(["wait:0.01"]), ["skip"])
    assert shown(run.pauses)[0] == "waiting Slow wait:0.01 a body"
    assert run.result == {"f": 1, "g": 2}


async def test_enclosing_pass_is_not_waiting(door: anyio.Event) -> None:
    run = await run_paused(
        Sequential([Sequential([Blocked()])]), {"m": {"f": 1}}, PauseInstrument(["wait:0.01"]), ["skip"]
    )
    assert [pause.info.name for pause in run.pauses if pause.stage == "waiting"] == ["pauses.Blocked"]


async def test_breakpoint_is_added_during_wait(door: anyio.Event) -> None:
    pauses = PauseInstrument(watch_waits=True)

    async def add() -> None:
        await anyio.wait_all_tasks_blocked()
        assert [active.waits_for for active in pauses.activity.running()] == [("a door",)]
        pauses.add("wait:0.01")
        pause = await pauses.next_pause()
        assert pause is not None
        pause.skip()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(add)
        async with PassContext(instruments=[pauses]):
            assert await Blocked()({"f": 1}) == {"f": 1}
    assert pauses.activity.running() == []


async def test_error_of_watched_pass_is_not_wrapped() -> None:
    @apass.module_pass(opt_level=0)
    async def Fail(mod: Module, ctx: PassContext) -> Module:
        await anyio.lowlevel.checkpoint()
        raise ValueError("no")

    async with PassContext(instruments=[PauseInstrument(["wait:60"])]):
        with pytest.raises(ValueError, match="no"):
            await Fail({})


@pytest.mark.both_loops
async def test_watched_pass_is_cancelled(door: anyio.Event) -> None:
    async with PassContext(instruments=[PauseInstrument(["wait:60"])]), anyio.create_task_group() as tasks:
        tasks.start_soon(Blocked(), {"f": 1})
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


@apass.pass_instrument
class Rounds:
    """Needs some rounds of the event loop between two passes."""

    async def run_after_pass(self, mod: Module, info: apass.PassInfo) -> None:
        for _ in range(5):
            await checkpoint()


async def hold_loop() -> None:
    """Hold the event loop in each of its rounds, as a pass does that computes."""
    while True:
        sleep(0.02)  # noqa: ASYNC251  holds the loop on purpose
        await checkpoint()


async def fail_at_pause(pauses: PauseInstrument) -> None:
    """Fail at the first pause."""
    pause = await pauses.next_pause()
    pytest.fail(f"paused at {pause and pause.info.name}: {pause and pause.reason}")


@pytest.mark.both_loops
async def test_busy_loop_is_no_wait_of_pipeline() -> None:
    pauses = PauseInstrument(["wait:0.01"])
    async with PassContext(instruments=[Rounds(), pauses]), anyio.create_task_group() as tasks:
        tasks.start_soon(fail_at_pause, pauses)
        tasks.start_soon(hold_loop)
        await Sequential([Add(), Add(), Add()])({"f": 1})
        tasks.cancel_scope.cancel()
