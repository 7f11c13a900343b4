"""`TraceInstrument`: tracks, nesting, waits, and the file."""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any, Literal

import anyio
import pytest

import apass
from apass.executors import ProcessExecutor
from apass.instruments import TraceInstrument
from apass.instruments.trace.event_file import EventFile
from tests.helpers.crowd import Halve, Module
from tests.helpers.folders import files
from tests.helpers.full_disk import file_size_limit
from tests.helpers.traces import Event, outline, read_trace, slices, track_names


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
async def test_spans_are_nested_in_their_module_track(tmp_path: Path) -> None:
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
    assert {name for (process, _), name in track_names(events).items() if process == 2} == {"MainThread"}
    steps = outline(events, process=2)
    # `sequential` may have yielded before `Double` began. Then it has an earlier slice.
    body = steps.index("    a: f")
    assert (steps[0], steps[body - 2 : body]) == ("[MainThread]", ["a: sequential", "  a: Double"])


@pytest.mark.anyio
async def test_concurrent_bodies_have_separate_tracks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    begun: list[int] = []
    all_begun = anyio.Event()

    async def ask_together(func: int, mod: Module, ctx: apass.PassContext) -> int:
        begun.append(func)
        if len(begun) == len(mod):
            all_begun.set()
        await all_begun.wait()
        await Nap(mod)
        return func

    async with apass.PassContext(instruments=[TraceInstrument(path)]):
        await apass.optimize_all({"m": {"f": 1, "g": 2, "h": 3}}, apass.function_pass(ask_together, 0, "Ask"))
    events = read_trace(path)
    assert set(track_names(events).values()) == {"m", "m (2)", "m (3)", "MainThread"}
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
async def test_bodies_are_omitted_without_functions(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    async with apass.PassContext(instruments=[TraceInstrument(path, functions=False)]):
        await Double({"f": 1})
    assert outline(read_trace(path)) == ["[no module name]", "Double {'position': '0:Double', 'changed': True}"]


@pytest.mark.anyio
async def test_task_that_outlives_its_pass_changes_tracks(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    started, finish = anyio.Event(), anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Late(mod: Module, ctx: apass.PassContext) -> Module:
        started.set()
        await finish.wait()
        return mod

    async with apass.PassContext(instruments=[TraceInstrument(path)]), anyio.create_task_group() as tasks:

        @apass.module_pass(opt_level=0)
        async def Leave(mod: Module, ctx: apass.PassContext) -> Module:
            tasks.start_soon(Late, mod)
            await started.wait()
            return mod

        await Leave({})
        finish.set()
    assert outline(read_trace(path)) == [
        "[no module name]",
        "Leave {'position': '0:Leave', 'changed': False}",
        "  Late {'position': '0:Leave/0:Late', 'continues': True}",
        "[no module name (2)]",
        "Late {'position': '0:Leave/0:Late', 'changed': False}",
    ]


@pytest.mark.anyio
async def test_later_contexts_append_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    trace = TraceInstrument(path)
    for _ in range(2):
        async with apass.PassContext(instruments=[trace]), apass.PassContext(instruments=[trace]):
            await Double({"f": 1})
        read_trace(path)
    positions = [item["args"]["position"] for item in slices(read_trace(path)) if item["cat"] == "pass"]
    assert (positions, files(tmp_path)) == (["0:Double", "1:Double"], ["trace.json"])


@pytest.mark.anyio
async def test_removed_instrument_marks_running_pass_as_unfinished(tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0)
    async def Drop(mod: Module, ctx: apass.PassContext) -> Module:
        await ctx.override_instruments([])
        return mod

    path = tmp_path / "trace.json"
    async with apass.PassContext(instruments=[TraceInstrument(path)]):
        await Drop({})
    (shown,) = [item for item in slices(read_trace(path)) if item["cat"] == "pass"]
    assert shown["args"] == {"level": 0, "position": "0:Drop", "unfinished": True}


def spans(events: list[Event], names: set[str]) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """Return the passes and bodies of the named modules, without times."""
    tracks = {track: name.partition(" ")[0] for track, name in track_names(events).items()}
    shown = [(tracks[item["pid"], item["tid"]], item) for item in slices(events) if item["cat"] in ("pass", "function")]
    return sorted((name, item["name"], sorted(item["args"].items())) for name, item in shown if name in names)


@pytest.mark.process
@pytest.mark.parametrize(("executor", "backend"), [("thread", "asyncio"), ("thread", "trio"), ("process", "asyncio")])
def test_workers_have_their_own_tracks(tmp_path: Path, executor: Literal["thread", "process"], backend: str) -> None:
    path = tmp_path / "trace.json"

    async def main() -> None:
        async with apass.PassContext(instruments=[TraceInstrument(path)], executor=executor):
            await apass.optimize_all({"a": {"f": 1, "g": 2}, "b": {"f": 3}}, Count)

    anyio.run(main, backend=backend)
    events = read_trace(path)
    names = {track: name for track, name in track_names(events).items() if track[0] == 3}
    work = [item for item in slices(events) if item["pid"] == 3]
    assert sorted(item["name"] for item in work) == ["a: Count f", "a: Count g", "b: Count f"]
    assert {name.partition(" ")[0] for name in names.values()} == {executor}
    assert {(3, item["tid"]) for item in work} == set(names)


@pytest.mark.process
def test_every_item_of_a_process_batch_is_traced(tmp_path: Path, backend: str) -> None:
    path = tmp_path / "trace.json"
    mod = {f"f{n}": n for n in range(12)}

    async def main() -> None:
        async with apass.PassContext(instruments=[TraceInstrument(path)], executor=ProcessExecutor(workers=1)):
            await Halve(mod)

    anyio.run(main, backend=backend)
    work = [item["name"] for item in slices(read_trace(path)) if item["pid"] == 3]
    assert sorted(work) == sorted(f"Halve {name}" for name in mod)


def test_folder_as_path_raises_is_a_directory_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"TraceInstrument writes a file, and .* is a folder; choose another"):
        TraceInstrument(tmp_path)


@pytest.mark.anyio
async def test_unwritable_file_fails_on_context_entry(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        async with apass.PassContext(instruments=[TraceInstrument(tmp_path / "file" / "trace.json")]):
            raise AssertionError


def test_events_are_written_in_order_with_bounded_memory(tmp_path: Path) -> None:
    file = EventFile(tmp_path / "events.json")
    file.start()
    for number in range(100_000):
        file.add({"name": str(number), "ph": "i"})
    assert len(file.__dict__["_pending"]) < 1000
    file.finish()
    events = json.loads((tmp_path / "events.json").read_text())["traceEvents"]
    assert [int(item["name"]) for item in events] == list(range(100_000))


def test_full_disk_raises_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text("before")
    file = EventFile(path)
    file.start()
    with file_size_limit(100_000):
        for number in range(50_000):
            file.add({"name": str(number), "ph": "i"})
        with pytest.raises(OSError, match=r"File too large: '.*events\.json'"):
            file.finish()
    assert (files(tmp_path), path.read_text()) == (["events.json"], "before")


@pytest.mark.anyio
async def test_nested_context_does_not_finish_the_file(tmp_path: Path) -> None:
    trace = TraceInstrument(tmp_path / "trace.json")

    @apass.module_pass(opt_level=0)
    async def Nest(mod: Module, ctx: apass.PassContext) -> Module:
        async with apass.PassContext(instruments=[trace]):
            await Double(mod)
        return await Double(mod)

    async with apass.PassContext(instruments=[trace]):
        await Nest({"f": 1})
    spans = [item for item in slices(read_trace(tmp_path / "trace.json")) if item["cat"] == "pass"]
    assert sorted(item["name"] for item in spans) == ["Double", "Double", "Nest"]
    assert not any("unfinished" in item["args"] for item in spans)
