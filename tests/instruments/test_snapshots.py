"""`SnapshotInstrument`: a pipeline continues after its last finished pass."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.instruments import BisectInstrument, SnapshotInstrument
from apass.util.files import write_whole
from tests.helpers.folders import files

pytestmark = pytest.mark.anyio

Module = dict[str, list[str]]

MODULE: Module = {"f": []}


class Runs:
    """Passes that record their runs, one of which can be made to fail."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.failing: str | None = None

    def pass_(self, name: str) -> apass.ModulePass[Module]:
        def body(mod: Module, ctx: apass.PassContext) -> Module:
            if name == self.failing:
                raise ValueError(name)
            self.log.append(name)
            return {"f": [*mod["f"], name]}

        return apass.module_pass(body, opt_level=0, name=name)


@pytest.fixture
def runs() -> Iterator[Runs]:
    """Return passes `A` to `E`, which are registered."""
    recorded = Runs()
    for name in "ABCDE":
        apass.register_pass(name, lambda name=name: recorded.pass_(name))
    yield recorded
    for name in "ABCDE":
        apass.unregister_pass(name)


async def run(folder: Path, pipeline: apass.Pass[Module] | str, **options: Any) -> Module:
    """Run a pipeline with a snapshot after each pass."""
    snapshots = SnapshotInstrument(folder, **{"share": float("inf"), "interval": 0, **options})
    async with apass.PassContext(instruments=[snapshots]):
        return (await apass.optimize_all({"m": MODULE}, pipeline))["m"]


async def interrupted(folder: Path, pipeline: str, runs: Runs, failing: str, **options: Any) -> None:
    """Run a pipeline in which a pass fails."""
    runs.failing = failing
    with pytest.raises(ValueError, match=failing):
        await run(folder, pipeline, **options)
    runs.failing = None


@pytest.mark.parametrize("pipeline", ["A,B,C,D", "A,Sequential{name=inner}(B,C),D", "A,Repeat{times=1}(B,C),D"])
@pytest.mark.parametrize("failing", ["B", "C", "D"])
async def test_pipeline_continues_after_last_pass(tmp_path: Path, runs: Runs, pipeline: str, failing: str) -> None:
    await interrupted(tmp_path, pipeline, runs, failing)
    assert await run(tmp_path, pipeline) == {"f": list("ABCD")}
    assert runs.log == list("ABCD")
    assert files(tmp_path) == []


async def test_pipeline_continues_several_times(tmp_path: Path, runs: Runs) -> None:
    pipeline = "A,Repeat{times=2}(B,C),D"
    for failing in "BCD":
        await interrupted(tmp_path, pipeline, runs, failing)
    assert await run(tmp_path, pipeline) == {"f": list("ABCBCD")}
    assert runs.log == list("ABCBCD")


async def test_other_pipeline_starts_over(tmp_path: Path, runs: Runs) -> None:
    await interrupted(tmp_path, "A,B,C", runs, "C")
    assert await run(tmp_path, "A,B,D") == {"f": ["A", "B", "D"]}
    assert runs.log == ["A", "B", "A", "B", "D"]


async def test_changed_context_starts_over(tmp_path: Path, runs: Runs) -> None:
    await interrupted(tmp_path, "A,B,C", runs, "C")
    snapshots = SnapshotInstrument(tmp_path)
    async with apass.PassContext(instruments=[snapshots], disabled_pass=["B"]):
        assert await apass.optimize_all({"m": MODULE}, "A,B,C") == {"m": {"f": list("AC")}}


async def test_continued_pipelines_are_listed(tmp_path: Path, runs: Runs) -> None:
    await interrupted(tmp_path, "A,B,C", runs, "C")
    snapshots = SnapshotInstrument(tmp_path)
    async with apass.PassContext(instruments=[snapshots]):
        await apass.optimize_all({"m": MODULE}, "A,B,C")
    assert snapshots.continued == {"m": "0:sequential/1:B"}


async def test_pass_in_code_of_another_has_no_snapshot(tmp_path: Path, runs: Runs) -> None:
    @apass.register_pass
    @apass.module_pass(opt_level=0, name="Outer")
    async def outer(mod: Module, ctx: apass.PassContext) -> Module:
        return await runs.pass_("C")(await runs.pass_("B")(mod))

    try:
        await interrupted(tmp_path, "A,Outer,D", runs, "C")
        assert await run(tmp_path, "A,Outer,D") == {"f": list("ABCD")}
    finally:
        apass.unregister_pass("Outer")
    assert runs.log == list("ABBCD")


def damage(folder: Path) -> None:
    write_whole(next(folder.rglob("latest.json")), "{}")


async def test_damaged_snapshot_starts_over(tmp_path: Path, runs: Runs) -> None:
    await interrupted(tmp_path, "A,B,C", runs, "C")
    damage(tmp_path)
    assert await run(tmp_path, "A,B,C") == {"f": list("ABC")}


async def test_share_bounds_time_of_snapshots(tmp_path: Path, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def now() -> float:
        clock[0] += 1.0
        return clock[0]

    monkeypatch.setattr("apass.instruments.snapshots.perf_counter", now)
    written: list[float] = []

    def write(*_: object) -> None:
        written.append(clock[0])

    monkeypatch.setattr("apass.batch.snapshot_folder.SnapshotFolder.write", write)
    await run(tmp_path, "Repeat{times=100}(A)", share=0.1, interval=0)
    assert len(runs.log) == 100
    # Each reading of the clock takes a second, so a snapshot takes one second.
    assert 0 < len(written) <= 0.1 * clock[0]


async def test_interval_is_kept(tmp_path: Path, runs: Runs) -> None:
    await interrupted(tmp_path, "A,B,C", runs, "C", interval=1000.0)
    assert await run(tmp_path, "A,B,C") == {"f": list("ABC")}
    assert runs.log == list("ABABC")


@pytest.mark.parametrize("values", [[1, 10], [1, 1]])
async def test_concurrent_pipelines_do_not_mix(tmp_path: Path, values: list[int]) -> None:
    """Modules without a name run at once, and fail at once."""
    is_failing = [True]
    started = [anyio.Event() for _ in values]

    async def meet(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        next(event for event in started if not event.is_set()).set()
        for event in started:
            await event.wait()
        return {"f": mod["f"] + 1}

    def fail_once(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
        if is_failing[0]:
            raise ValueError("fails once")
        return {"f": 2 * mod["f"]}

    pipeline = apass.Sequential([apass.module_pass(meet, opt_level=0), apass.module_pass(fail_once, opt_level=0)])
    results: list[int] = []

    async def work(snapshots: SnapshotInstrument, value: int) -> None:
        with suppress(ValueError):
            results.append((await snapshots.run_continued(pipeline, {"f": value}, runner=lambda pass_: pass_))["f"])

    for _ in range(2):
        snapshots = SnapshotInstrument(tmp_path, share=float("inf"), interval=0)
        async with apass.PassContext(instruments=[snapshots]), anyio.create_task_group() as group:
            for value in values:
                group.start_soon(work, snapshots, value)
        is_failing[0] = False
        started[:] = [anyio.Event() for _ in values[len(set(values)) :]]
    assert sorted(results) == [2 * (value + 1) for value in values]
    assert files(tmp_path) == []


def damage_chunks(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "latest.json":
            write_whole(path, "damaged")


async def test_damaged_chunk_is_written_again(tmp_path: Path, runs: Runs) -> None:
    await interrupted(tmp_path, "A,B,C", runs, "C")
    damage_chunks(tmp_path)
    await interrupted(tmp_path, "A,B,C", runs, "C")
    assert await run(tmp_path, "A,B,C") == {"f": list("ABC")}
    assert runs.log == list("ABABC")


async def test_unwritable_folder_does_not_end_a_run(tmp_path: Path, runs: Runs) -> None:
    write_whole(tmp_path / "file", "")
    with pytest.warns(apass.errors.JournalWarning, match="cannot write snapshots to '.*file': Not a dir"):
        assert await run(tmp_path / "file", "A,B,C") == {"f": list("ABC")}


@pytest.mark.slow
@given(st.lists(st.sampled_from("ABCDE"), min_size=1, max_size=6), st.lists(st.sampled_from("ABCDE"), max_size=4))
def test_interruptions_do_not_change_result(names: list[str], failing: list[str]) -> None:
    recorded = Runs()
    pipeline = apass.Sequential([recorded.pass_(name) for name in names])
    with TemporaryDirectory() as folder:
        ended = 0
        for name in [*failing, None]:
            recorded.failing = name
            # A pass that has finished before does not run again, so it does not fail.
            with suppress(ValueError):
                assert anyio.run(run, Path(folder), pipeline) == {"f": names}
                ended += name is None
        assert ended == 1


class Append(apass.InPlacePass[Module]):
    """Appends its letter to the one copy that the pipeline makes."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.info = apass.PassInfo(opt_level=0, name=letter)
        self.is_failing = False

    def transform_in_place(self, mod: Module, ctx: apass.PassContext) -> bool:
        if self.is_failing:
            raise ValueError(self.letter)
        mod["f"] = [*mod["f"], self.letter]
        return True


async def test_module_changed_in_place_is_written_each_time(tmp_path: Path) -> None:
    passes = [Append(letter) for letter in "ABCD"]
    pipeline = apass.Sequential(passes)
    passes[-1].is_failing = True
    with pytest.raises(ValueError, match="D"):
        await run(tmp_path, pipeline)
    passes[-1].is_failing = False
    assert await run(tmp_path, pipeline) == {"f": list("ABCD")}


async def test_skipped_passes_leave_no_snapshot(tmp_path: Path, runs: Runs) -> None:
    runs.failing = "C"
    for _ in range(2):
        snapshots = SnapshotInstrument(tmp_path, share=float("inf"), interval=0)
        async with apass.PassContext(instruments=[snapshots, BisectInstrument(intervals=[(2, 4)])]):
            with pytest.raises(ValueError, match="C"):
                await apass.optimize_all({"m": MODULE}, "A,A,B,C")
    assert runs.log == list("ABAB")
    assert files(tmp_path) == []
