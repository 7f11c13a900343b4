"""`ReportInstrument`: the record, its limits, and its independence of concurrency."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

import apass
from apass.instruments import ReportInstrument
from apass.instruments.report.record import PassRun, RunStatus
from apass.instruments.report.texts import LARGE
from tests.helpers.report_samples import PIPELINE, Halve, Nothing, modules, recorded
from tests.helpers.reports import index_of, lines, texts_of


def text(report: ReportInstrument, index: int) -> str | None:
    """Return the stored text at an index."""
    return None if index < 0 else texts_of(report.render())[index]


@pytest.mark.anyio
async def test_each_pass_is_recorded_with_its_texts(anyio_backend: str) -> None:
    report = ReportInstrument()
    async with apass.PassContext(instruments=[report]):
        await apass.optimize_all({"m": {"f": 8}}, PIPELINE)
    record = report.record()
    assert lines(record) == [
        "m Main CHANGED",
        "m Main/Nothing UNCHANGED",
        "m Main/Inner CHANGED",
        "m Main/Inner/Halve CHANGED",
        "m Main/Inner/Rebuild UNCHANGED",
        "m Main/RefuseNines UNCHANGED",
        "m Main/Extend CHANGED",
        "m Main/Halve CHANGED",
    ]
    before, after = "f: 8", "f: 2\nmore0: 0\nmore1: 1\nmore2: 1"
    assert [text(report, item) for item in (record.runs[0].before, record.runs[0].after)] == [before, after]
    assert [text(report, item) for item in (record.runs[3].before, record.runs[3].after)] == ["f: 8", "f: 4"]
    assert [dict(run.statistics) for run in record.runs if run.statistics] == [{"halved": 1}, {"halved": 3}]
    assert len(record.texts) == 4


@pytest.mark.anyio
async def test_passes_share_the_record_of_a_failure(anyio_backend: str) -> None:
    report = await recorded(5)
    failed = [run for run in report.record().runs if run.failure is not None]
    assert [run.steps[-1][1] for run in failed] == ["Main", "RefuseNines"]
    assert failed[0].failure is failed[1].failure
    failure = failed[0].failure
    assert failure is not None
    assert (failure.kind, list(failure.notes)) == (
        "ValueError",
        ["nines are bad luck", "in pass 'Main > RefuseNines', module 'm4'"],
    )
    assert failure.traceback.startswith("Traceback (most recent call last):")


@pytest.mark.anyio
async def test_times_of_nested_runs_are_nested(anyio_backend: str) -> None:
    record = (await recorded(20)).record()
    by_position = {(run.module, run.steps): run for run in record.runs}
    for run in record.runs:
        assert record.origin <= run.start <= run.end
        bounds = list(run.slices)
        assert bounds == sorted(bounds)
        assert len(bounds) % 2 == 0
        assert run.busy <= run.end - run.start + 1e-6
        above = by_position.get((run.module, run.steps[:-1]))
        assert above is None or above.start <= run.start <= run.end <= above.end


@pytest.mark.anyio
async def test_changed_functions_are_recorded_with_their_task(anyio_backend: str) -> None:
    bodies = (await recorded(1)).record().bodies
    changed = [body for body in bodies if body.status is RunStatus.CHANGED]
    assert {body.function for body in changed} >= {"f1", "f2", "f3"}
    assert all(body.worker >= 0 and body.start <= body.end for body in bodies)


@pytest.mark.anyio
async def test_record_is_available_while_passes_run(anyio_backend: str) -> None:
    report = ReportInstrument()
    snapshots: list[PassRun] = []

    @apass.module_pass(opt_level=0)
    async def Look(mod: Any, ctx: apass.PassContext) -> Any:
        snapshots.extend(report.record().runs)
        return mod

    async with apass.PassContext(instruments=[report]):
        await apass.Sequential([Look])({"f": 1})
    assert [(run.status, run.end >= run.start) for run in snapshots] == [(RunStatus.UNFINISHED, True)] * 2


@pytest.mark.anyio
async def test_large_texts_and_other_threads_are_recorded(anyio_backend: str) -> None:
    long = "x" * LARGE
    mod: dict[str, str] = {"f": long}

    @apass.module_pass(opt_level=0)
    def Add(mod: dict[str, str], ctx: apass.PassContext) -> dict[str, str]:
        return {**mod, "g": long}

    @apass.module_pass(opt_level=0)
    async def Wait(mod: dict[str, str], ctx: apass.PassContext) -> dict[str, str]:
        await anyio.lowlevel.checkpoint()
        return mod

    report = ReportInstrument()
    context = apass.PassContext(instruments=[report])
    async with context:
        await apass.Sequential([Add, Wait, Add])(mod)
    await anyio.to_thread.run_sync(lambda: apass.run(Nothing, {"f": 1}, context=context))
    assert [run.status.name for run in report.record().runs] == [
        "CHANGED",
        "CHANGED",
        "UNCHANGED",
        "UNCHANGED",
        "UNCHANGED",
    ]
    assert max(texts_of(report.render()), key=len) == f"f: {long}\ng: {long}"


@pytest.mark.anyio
async def test_items_beyond_the_limits_are_counted(anyio_backend: str) -> None:
    report = await recorded(10, max_runs=20, max_bodies=5, max_remarks=7, max_bytes=50)
    record = report.record()
    assert (len(record.runs), len(record.bodies), len(record.remarks)) == (20, 5, 7)
    assert set(record.left_out) == {"runs of passes", "work on functions", "remarks", "texts"}
    assert all(count > 0 for count in record.left_out.values())
    assert index_of(report.render())["leftOut"] == dict(record.left_out)


def test_module_without_text_has_the_error_instead() -> None:
    report = ReportInstrument()
    keep: apass.ModulePass[object] = apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Keep")
    apass.run(keep, object(), context=apass.PassContext(instruments=[report]))
    assert lines(report.record()) == ["(unnamed 1) Keep UNCHANGED"]
    assert texts_of(report.render())[0].startswith("there is no text of this module: AdapterError: no IR adapter for")


def test_failure_outside_of_any_pass_is_recorded() -> None:
    report = ReportInstrument()
    report.fail("net", OSError("no such file"))
    assert [(name, item.kind, item.message) for name, item in report.record().failures.items()] == [
        ("net", "OSError", "no such file")
    ]
    assert index_of(report.render())["modules"] == ["net"]


@pytest.mark.anyio
async def test_report_does_not_keep_modules_alive(anyio_backend: str) -> None:
    class Held(dict[str, int]):
        """A dict that supports weak references."""

    import gc
    import weakref

    report = ReportInstrument()
    mod = Held(f=8)
    reference = weakref.ref(mod)
    async with apass.PassContext(instruments=[report]):
        await Halve(mod)
    del mod
    gc.collect()
    assert reference() is None


@pytest.mark.anyio
async def test_write_creates_only_the_complete_file(tmp_path: Path, anyio_backend: str) -> None:
    report = await recorded(3)
    await report.write(tmp_path / "new" / "report.html")
    page = (tmp_path / "new" / "report.html").read_text()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]
    assert index_of(page)["modules"] == list(modules(3))
