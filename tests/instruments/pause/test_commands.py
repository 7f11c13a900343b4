"""The commands of a pause: steps, skip, replace, rerun and save."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, Sequential
from apass.instruments import Pause, PauseInstrument
from tests.helpers.pauses import Add, Square, paused, run_paused

pytestmark = pytest.mark.anyio

Module = dict[str, int]

PIPELINE = Sequential([Add(), Sequential([Square(), Add(5)], name="inner"), Add(7)])


@apass.module_pass(opt_level=0)
def Fail(mod: Module, ctx: PassContext) -> Module:
    raise ValueError("no")


def short(log: Sequence[str]) -> list[str]:
    """Return the stage and the last step of each line."""
    return [f"{line.split()[0]} {line.split()[1].split('/')[-1]}" for line in log]


async def test_step_pauses_at_each_begin_and_end() -> None:
    run = await paused(PIPELINE, ["step"] * 20)
    assert short(run.log) == [
        "before 0:sequential",
        "before 0:pauses.Add",
        "after 0:pauses.Add",
        "before 1:inner",
        "before 0:pauses.Square",
        "after 0:pauses.Square",
        "before 1:pauses.Add",
        "after 1:pauses.Add",
        "after 1:inner",
        "before 2:pauses.Add",
        "after 2:pauses.Add",
        "after 0:sequential",
    ]
    assert [line.split()[-1] for line in run.log] == ["interrupt", *["step"] * 11]


async def test_next_stays_on_its_level() -> None:
    run = await paused(PIPELINE, ["step", *["next"] * 20])
    assert short(run.log) == [
        "before 0:sequential",
        "before 0:pauses.Add",
        "after 0:pauses.Add",
        "before 1:inner",
        "after 1:inner",
        "before 2:pauses.Add",
        "after 2:pauses.Add",
        "after 0:sequential",
    ]


async def test_finish_runs_to_end_of_enclosing_pass() -> None:
    run = await paused(PIPELINE, ["finish", "finish"], "pass:pauses.Square")
    assert short(run.log) == ["before 0:pauses.Square", "after 1:inner", "after 0:sequential"]
    assert run.log[1].endswith("finish")


async def test_finish_runs_past_outermost_pass() -> None:
    run = await paused(PIPELINE, ["finish"])
    assert short(run.log) == ["before 0:sequential"]
    assert run.result == {"f": 21, "g": 9}


async def test_next_over_failing_pass_pauses_there() -> None:
    run = await paused(Sequential([Sequential([Fail], name="inner")]), ["step", "next", "next"])
    assert short(run.log) == ["before 0:sequential", "before 0:inner", "failed 0:inner", "failed 0:sequential"]
    assert isinstance(run.result, ValueError)


async def test_steps_reach_passes_in_bodies() -> None:
    @apass.function_pass(opt_level=0)
    async def Nest(func: int, mod: Module, ctx: PassContext) -> int:
        return (await Add()({"f": func}))["f"]

    run = await paused(Nest, ["step", "step", "step"], mod={"f": 1})
    assert [line.split()[1] for line in run.log] == [
        "0:Nest",
        "0:Nest@f/0:pauses.Add",
        "0:Nest@f/0:pauses.Add",
        "0:Nest",
    ]


async def test_skip_keeps_input_and_pauses_next() -> None:
    run = await paused(PIPELINE, ["step", "skip"])
    assert short(run.log) == ["before 0:sequential", "before 0:pauses.Add", "before 1:inner"]
    assert run.result == {"f": 16, "g": 9}


async def test_skip_after_pass_drops_its_result() -> None:
    run = await paused(PIPELINE, ["next", "skip"], "pass:inner")
    assert short(run.log) == ["before 1:inner", "after 1:inner", "before 2:pauses.Add"]
    assert run.result == {"f": 10, "g": 3}


async def test_skip_after_error_continues_with_input() -> None:
    run = await paused(Sequential([Fail, Add()]), ["skip"], "error")
    assert short(run.log) == ["failed 0:Fail", "before 1:pauses.Add"]
    assert run.result == {"f": 3, "g": 3}


async def test_replace_before_pass_changes_its_input() -> None:
    new = {"f": 100}
    run = await paused(Add(), [lambda pause: pause.replace(new), "step"])
    assert run.log == ["before 0:pauses.Add interrupt", "before 0:pauses.Add replace", "after 0:pauses.Add step"]
    assert run.pauses[1].module is run.pauses[1].input is new
    assert run.pauses[2].before is new
    assert "-f: 2\n+f: 100" in run.pauses[1].diff
    assert run.result == {"f": 101}


async def test_replace_after_pass_changes_its_result() -> None:
    run = await paused(Sequential([Add(), Add(2)]), [lambda pause: pause.replace({"f": 0})], "changed:f")
    assert run.log[:2] == [
        "after 0:sequential/0:pauses.Add changed:f",
        "after 0:sequential/0:pauses.Add replace",
    ]
    assert run.pauses[1].input == {"f": 2, "g": 3}
    assert run.result == {"f": 2}


async def test_replace_after_error_is_result() -> None:
    run = await paused(Sequential([Fail, Add()]), [lambda pause: pause.replace({"f": 7})], "error")
    assert short(run.log) == ["failed 0:Fail", "after 0:Fail"]
    assert run.result == {"f": 8}


async def test_replace_refuses_what_is_no_module() -> None:
    def replace(pause: Pause) -> None:
        with pytest.raises(apass.errors.AdapterError):
            pause.replace(3)
        assert pause.is_open
        pause.continue_()

    assert (await paused(Add(), [replace])).result == {"f": 3, "g": 3}


async def test_rerun_takes_other_options() -> None:
    run = await paused(
        Sequential([Add()]),
        ["next", lambda pause: pause.rerun("amount=10"), lambda pause: pause.rerun({"amount": 20})],
        "pass:pauses.Add",
    )
    assert [pause.after and pause.after["f"] for pause in run.pauses] == [None, 3, 12, 22]
    assert run.result == {"f": 22, "g": 3}


async def test_rerun_before_pass_runs_once() -> None:
    run = await paused(Add(), [lambda pause: pause.rerun({"amount": 10})])
    assert short(run.log) == ["before 0:pauses.Add", "after 0:pauses.Add"]
    assert run.result == {"f": 12, "g": 3}


async def test_rerun_after_error_tries_again() -> None:
    tries: list[int] = []

    @apass.module_pass(opt_level=0)
    def Flaky(mod: Module, ctx: PassContext) -> Module:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ValueError(str(len(tries)))
        return {"f": 0}

    run = await paused(Flaky, ["rerun", "rerun"], "error")
    assert short(run.log) == ["failed 0:Flaky", "failed 0:Flaky", "after 0:Flaky"]
    assert run.result == {"f": 0}


async def test_rerun_of_nested_passes_pauses_within() -> None:
    run = await paused(PIPELINE, ["next", "rerun"], "pass:inner")
    assert short(run.log) == ["before 1:inner", "after 1:inner", "after 1:inner"]
    assert run.result == {"f": 21, "g": 9}


async def test_rerun_repeats_positions() -> None:
    commands = ["next", "finish", "rerun", "finish"]
    pauses = PauseInstrument(["pass:inner", "pass:pauses.Square"])
    run = await run_paused(PIPELINE, {"m": {"f": 2}}, pauses, commands)
    assert [line for line in run.log if "Square" in line] == [
        "before 0:sequential/1:inner/0:pauses.Square pass:pauses.Square"
    ] * 2


async def test_rerun_with_wrong_options_leaves_pause_open() -> None:
    def rerun(pause: Pause) -> None:
        with pytest.raises(apass.errors.PipelineSyntaxError, match="has no option 'amountt'; did you mean 'amount'"):
            pause.rerun("amountt=1")
        with pytest.raises(apass.errors.PipelineSyntaxError, match="expected the end of the options"):
            pause.rerun("amount=1},pauses.Square{")
        assert pause.is_open
        pause.continue_()

    assert (await paused(Add(), [rerun])).result == {"f": 3, "g": 3}


async def test_rerun_of_unregistered_pass_takes_no_options() -> None:
    def rerun(pause: Pause) -> None:
        with pytest.raises(apass.errors.UnknownPassError):
            pause.rerun("a=1")
        pause.continue_()

    await paused(Fail, [rerun])


async def test_second_command_raises() -> None:
    def twice(pause: Pause) -> None:
        pause.step()
        assert not pause.is_open
        with pytest.raises(apass.errors.PauseError, match="the pause has ended"):
            pause.step()

    await paused(Add(), [twice])


async def test_saved_state_is_replayed(tmp_path: Path) -> None:
    saved: list[Path] = []
    pauses = PauseInstrument(["pass:pauses.Square"])

    async def follow() -> None:
        async for pause in pauses:
            saved.append(await pause.save(tmp_path / "state"))
            saved.append(await pause.save(tmp_path / "state"))
            pause.continue_()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await PIPELINE.run({"f": 2}, name="m", ctx=PassContext(instruments=[pauses]))
    assert saved == [tmp_path / "state", tmp_path / "state~2"]
    found = apass.read_reproducer(saved[0])
    assert found.failure is None
    assert (found.pipeline, found.position, found.module) == (
        "pauses.Square",
        "0:sequential/1:inner/0:pauses.Square",
        "m",
    )
    assert found.rest == "pauses.Add{amount=5},pauses.Add{amount=7}"
    assert (await apass.replay(saved[0])).verdict is apass.debugging.Verdict.SUCCEEDS
    with pytest.raises(apass.errors.ReproducerError, match="the passes do not fail; give a check"):
        await apass.reduce(saved[0])


async def test_saved_failure_is_replayed(tmp_path: Path) -> None:
    pauses = PauseInstrument(["error"])

    async def follow() -> None:
        async for pause in pauses:
            await pause.save(tmp_path / "state")
            pause.skip()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await Sequential([Fail]).run({"f": 2}, ctx=PassContext(instruments=[pauses]))
    assert (await apass.replay(tmp_path / "state", Fail)).verdict is apass.debugging.Verdict.SAME


async def test_pause_holds_no_event_loop() -> None:
    ticks: list[int] = []

    async def tick(pauses: PauseInstrument) -> None:
        pause = await pauses.next_pause()
        assert pause is not None
        for number in range(3):
            await checkpoint()
            ticks.append(number)
        pause.continue_()

    pauses = PauseInstrument(["pass:*"])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick, pauses)
        await Add().run({"f": 1}, ctx=PassContext(instruments=[pauses]))
    assert ticks == [0, 1, 2]
