"""`TraceInstrument`: lanes, nesting, running and waiting, and the file."""

import json
import resource
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import anyio
import pytest

import apass
from apass.executors import ProcessExecutor
from apass.instruments import TraceInstrument
from apass.instruments.trace.event_file import EventFile
from tests.cli.models import files
from tests.instruments.crowd import Halve, Module, crowd, failing, run_crowd
from tests.instruments.traces import Event, lane_names, outline, read_trace, slices


@apass.module_pass(opt_level=1)
async def Nap(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.sleep(0.001)
    return mod


@apass.function_pass(opt_level=0)
def Double(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return 2 * func


@apass.function_pass(opt_level=0)
def Count(func: int, mod: Module, ctx: apass.PassContext) -> int:
    return sum(range(func * 10_000))


@apass.function_pass(opt_level=0)
async def Ask(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.sleep(0.001)
    await Nap(mod)
    if func == 13:
        raise ValueError("unlucky")
    return func


@pytest.mark.anyio
async def test_passes_bodies_and_waits_are_nested_in_the_lane_of_their_module(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "trace.json"
    async with apass.PassContext(instruments=[TraceInstrument(path)]):
        await apass.optimize_all({"a": {"f": 1}}, apass.Sequential([Double, Nap]))
        await apass.optimize_all({"a": {"f": 13}, "b": {"f": 0}}, Ask, errors="collect", limit=1)
    events = read_trace(path)
    assert (
        outline(events, waits_of=("f", "Nap"))
        == dedent(
            """\
        [a]
        sequential {'position': '0:sequential', 'changed': True}
          Double {'position': '0:sequential/0:Double', 'changed': True}
            f {'changed': True}
          Nap {'position': '0:sequential/1:Nap', 'changed': False}
            waiting
        Ask {'position': '1:Ask', 'error': 'ValueError: unlucky'}
          f {'error': 'ValueError: unlucky'}
            waiting
            Nap {'position': '1:Ask@f/0:Nap', 'changed': False}
              waiting
        [b]
        Ask {'position': '0:Ask', 'changed': False}
          f {'changed': False}
            waiting
            Nap {'position': '0:Ask@f/0:Nap', 'changed': False}
              waiting"""
        ).splitlines()
    )
    assert {name for (process, _), name in lane_names(events).items() if process == 2} == {"MainThread"}
    steps = outline(events, process=2)
    # Before `Double`, the sequence may have given the loop back: then it has another slice.
    body = steps.index("    a: f")
    assert (steps[0], steps[body - 2 : body]) == ("[MainThread]", ["a: sequential", "  a: Double"])


@pytest.mark.anyio
async def test_what_runs_at_the_same_time_in_one_module_has_lanes_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    async with apass.PassContext(instruments=[TraceInstrument(path)]):
        await apass.optimize_all({"m": {"f": 1, "g": 2, "h": 3}}, Ask)
    events = read_trace(path)
    assert set(lane_names(events).values()) == {"m", "m (2)", "m (3)", "MainThread"}
    assert [line for line in outline(events) if line.lstrip().startswith(("[", "f", "g", "h", "Ask"))] == [
        "[m]",
        "Ask {'position': '0:Ask', 'changed': False}",
        "  f {'changed': False}",
        "[m (2)]",
        "g {'changed': False}",
        "[m (3)]",
        "h {'changed': False}",
    ]


@pytest.mark.anyio
async def test_bodies_can_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    async with apass.PassContext(instruments=[TraceInstrument(path, functions=False)]):
        await Double({"f": 1})
    assert outline(read_trace(path)) == ["[no module name]", "Double {'position': '0:Double', 'changed': True}"]


@pytest.mark.anyio
async def test_a_task_that_outlives_the_pass_which_began_it_goes_on_in_another_lane(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    begun, over = anyio.Event(), anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Late(mod: Module, ctx: apass.PassContext) -> Module:
        begun.set()
        await over.wait()
        return mod

    async with apass.PassContext(instruments=[TraceInstrument(path)]), anyio.create_task_group() as tasks:

        @apass.module_pass(opt_level=0)
        async def Leave(mod: Module, ctx: apass.PassContext) -> Module:
            tasks.start_soon(Late, mod)
            await begun.wait()
            return mod

        await Leave({})
        over.set()
    assert outline(read_trace(path)) == [
        "[no module name]",
        "Leave {'position': '0:Leave', 'changed': False}",
        "  Late {'position': '0:Leave/0:Late', 'continues': True}",
        "[no module name (2)]",
        "Late {'position': '0:Leave/0:Late', 'changed': False}",
    ]


@pytest.mark.anyio
async def test_a_cancelled_run_is_shown_as_far_as_it_went(tmp_path: Path) -> None:
    begun = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Forever(mod: Module, ctx: apass.PassContext) -> Module:
        begun.set()
        await anyio.sleep_forever()
        return mod

    path = tmp_path / "trace.json"

    async def run() -> None:
        async with apass.PassContext(instruments=[TraceInstrument(path)]):
            await apass.Sequential([Forever])({"f": 1})

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await begun.wait()
        group.cancel_scope.cancel()
    shown = [one for one in slices(read_trace(path)) if one["cat"] == "pass"]
    assert [one["name"] for one in shown] == ["Forever", "sequential"]
    assert all(one["args"]["error"] == "cancelled" for one in shown)


@pytest.mark.anyio
async def test_a_context_entered_later_adds_to_the_file_and_nested_ones_share_it(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = TraceInstrument(path)
    for _ in range(2):
        async with apass.PassContext(instruments=[trace]), apass.PassContext(instruments=[trace]):
            await Double({"f": 1})
        read_trace(path)
    positions = [one["args"]["position"] for one in slices(read_trace(path)) if one["cat"] == "pass"]
    assert (positions, files(tmp_path)) == (["0:Double", "1:Double"], ["trace.json"])


@pytest.mark.anyio
async def test_a_pass_at_work_when_the_instrument_leaves_is_shown_as_unfinished(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Drop(mod: Module, ctx: apass.PassContext) -> Module:
        await ctx.override_instruments([])
        return mod

    path = tmp_path / "trace.json"
    async with apass.PassContext(instruments=[TraceInstrument(path)]):
        await Drop({})
    (shown,) = [one for one in slices(read_trace(path)) if one["cat"] == "pass"]
    assert shown["args"] == {"level": 0, "position": "0:Drop", "unfinished": True}


def told(events: list[Event], names: set[str]) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """Return each pass and body on the modules of these names, without what depends on the clock."""
    lanes = {lane: name.partition(" ")[0] for lane, name in lane_names(events).items()}
    shown = [(lanes[one["pid"], one["tid"]], one) for one in slices(events) if one["cat"] in ("pass", "function")]
    return sorted((name, one["name"], sorted(one["args"].items())) for name, one in shown if name in names)


@pytest.mark.anyio
async def test_two_hundred_modules_at_once_are_traced_as_one_after_the_other(tmp_path: Path) -> None:
    paths = tmp_path / "together.json", tmp_path / "alone.json"
    together = await run_crowd([TraceInstrument(paths[0])], limit=None)
    alone = await run_crowd([TraceInstrument(paths[1])], limit=1)
    fine = set(crowd()) - failing(alone)
    assert failing(together) == failing(alone)
    events = [read_trace(path) for path in paths]
    assert told(events[0], fine) == told(events[1], fine)
    failed = [{name for name, _, args in told(one, set(crowd())) if "error" in dict(args)} for one in events]
    assert failed[0] == failed[1] == failing(alone)


@pytest.mark.parametrize(("executor", "backend"), [("thread", "asyncio"), ("thread", "trio"), ("process", "asyncio")])
def test_workers_have_lanes_of_their_own(tmp_path: Path, executor: Literal["thread", "process"], backend: str) -> None:
    path = tmp_path / "trace.json"

    async def main() -> None:
        async with apass.PassContext(instruments=[TraceInstrument(path)], executor=executor):
            await apass.optimize_all({"a": {"f": 1, "g": 2}, "b": {"f": 3}}, Count)

    anyio.run(main, backend=backend)
    events = read_trace(path)
    names = {lane: name for lane, name in lane_names(events).items() if lane[0] == 3}
    work = [one for one in slices(events) if one["pid"] == 3]
    assert sorted(one["name"] for one in work) == ["a: Count f", "a: Count g", "b: Count f"]
    assert {name.partition(" ")[0] for name in names.values()} == {executor}
    assert {(3, one["tid"]) for one in work} == set(names)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_of_what_a_process_does_in_one_batch_nothing_is_missing(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "trace.json"
    mod = {f"f{n}": n for n in range(12)}

    async def main() -> None:
        async with apass.PassContext(instruments=[TraceInstrument(path)], executor=ProcessExecutor(workers=1)):
            await Halve(mod)

    anyio.run(main, backend=backend)
    work = [one["name"] for one in slices(read_trace(path)) if one["pid"] == 3]
    assert sorted(work) == sorted(f"Halve {name}" for name in mod)


def test_a_folder_cannot_be_the_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"TraceInstrument writes a file, and .* is a folder; choose another"):
        TraceInstrument(tmp_path)


@pytest.mark.anyio
async def test_a_file_that_cannot_be_opened_fails_when_the_context_is_entered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        async with apass.PassContext(instruments=[TraceInstrument(tmp_path / "file" / "trace.json")]):
            raise AssertionError


def test_any_number_of_events_is_written_in_order_while_few_are_kept(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "events.json")
    file.start()
    for number in range(100_000):
        file.add({"name": str(number), "ph": "i"})
    assert len(file.__dict__["_pending"]) < 1000
    file.finish()
    events = json.loads((tmp_path / "events.json").read_text())["traceEvents"]
    assert [int(one["name"]) for one in events] == list(range(100_000))


def test_a_disk_that_is_full_is_an_error_at_the_end_and_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text("before")
    file = EventFile(path)
    file.start()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        for number in range(50_000):
            file.add({"name": str(number), "ph": "i"})
        with pytest.raises(OSError, match="File too large"):
            file.finish()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (files(tmp_path), path.read_text()) == (["events.json"], "before")


@pytest.mark.anyio
async def test_a_context_within_another_does_not_finish_the_file(tmp_path: Path) -> None:
    trace = TraceInstrument(tmp_path / "trace.json")

    @apass.module_pass(opt_level=0)
    async def Nest(mod: Module, ctx: apass.PassContext) -> Module:
        async with apass.PassContext(instruments=[trace]):
            await Double(mod)
        return await Double(mod)

    async with apass.PassContext(instruments=[trace]):
        await Nest({"f": 1})
    spans = [one for one in slices(read_trace(tmp_path / "trace.json")) if one["cat"] == "pass"]
    assert sorted(one["name"] for one in spans) == ["Double", "Double", "Nest"]
    assert not any("unfinished" in one["args"] for one in spans)
