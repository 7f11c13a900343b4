"""Laws that hold for several instruments, each stated once over a table of them."""

import io
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.trace import ReadableSpan

import apass
from apass.instruments import (
    DumpTree,
    FunctionTimingInstrument,
    LoggingInstrument,
    PassTimingInstrument,
    PrintChanged,
    ProvenanceInstrument,
    RemarksInstrument,
    ReportInstrument,
    ReproducerInstrument,
    StatisticsInstrument,
    TraceInstrument,
)
from apass.instruments.otel import OpenTelemetryInstrument
from tests.helpers.crowd import Module, Tune, failing, run_crowd
from tests.helpers.folders import files, texts_without_times
from tests.helpers.log_records import RecordHandler, listening
from tests.helpers.reports import lines, without_times
from tests.helpers.spans import Recorder, attributes
from tests.helpers.timings import check_times, shapes
from tests.helpers.traces import outline, read_trace, slices, track_names

pytestmark = pytest.mark.anyio

Setup = Callable[[Path, RecordHandler], tuple[object, Callable[[], Any]]]
"""Given a folder and the log, returns an instrument and a function that reads its results."""


@apass.function_pass(opt_level=0)
async def Increment(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


@apass.function_pass(opt_level=0)
def Spin(func: int, mod: Module, ctx: apass.PassContext) -> int:
    """Run without waits, so that a step that is counted twice exceeds the wall time."""
    return func + sum(range(50_000)) % 2


def logged_warnings(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    def read() -> list[tuple[object, ...]]:
        records = [record for record in log.records if record.levelno >= logging.WARNING]
        return [(record.levelname, record.getMessage(), record.exc_info) for record in records]

    return LoggingInstrument(), read


def span_statuses(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    recorder = Recorder()

    def read() -> dict[str, tuple[bool, bool]]:
        return {
            span.name: (attributes(span).get("apass.cancelled", False), span.status.is_unset) for span in recorder.spans
        }

    return OpenTelemetryInstrument(recorder.tracer, functions=True), read


def reproducer_files(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    instrument = ReproducerInstrument(folder)
    return instrument, lambda: (instrument.folders, files(folder))


def dump_indexes(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    def read() -> tuple[str, list[list[str]]]:
        files = texts_without_times(folder)
        return files["index.txt"], [line.split()[1:] for line in files["m/index.txt"].splitlines()[4:]]

    return DumpTree(folder), read


def report_runs(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    report = ReportInstrument()

    def read() -> tuple[list[str], list[object]]:
        record = report.record()
        # An interval that is recorded twice would make a run busy for longer than it lasted.
        assert all(run.busy <= run.end - run.start + 1e-6 for run in record.runs)
        return lines(record), [run.failure for run in record.runs]

    return report, read


def trace_errors(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    path = folder / "trace.json"

    def read() -> list[tuple[str, object]]:
        passes = [item for item in slices(read_trace(path)) if item["cat"] == "pass"]
        return [(item["name"], item["args"].get("error")) for item in passes]

    return TraceInstrument(path), read


CANCELLED: list[tuple[Setup, object]] = [
    (
        logged_warnings,
        [
            ("WARNING", "function_failed", None),
            ("WARNING", "pass_failed", None),
            ("WARNING", "pass_failed", None),
        ],
    ),
    (
        span_statuses,
        {
            "Increment f": (False, True),
            "Increment": (False, True),
            "Forever f": (True, True),
            "Forever": (True, True),
            "sequential": (True, True),
            "module m": (True, True),
        },
    ),
    (reproducer_files, ([], [])),
    (
        dump_indexes,
        (
            "m  3 passes, 1 changed something, T s, cancelled\n",
            [
                ["cancelled", "0:sequential"],
                ["changed", "0:Increment", "m/0_sequential/0_Increment.txt"],
                ["cancelled", "1:Forever"],
            ],
        ),
    ),
    (
        report_runs,
        (
            ["m sequential CANCELLED", "m sequential/Increment CHANGED", "m sequential/Forever CANCELLED"],
            [None, None, None],
        ),
    ),
    (trace_errors, [("Increment", None), ("Forever", "cancelled"), ("sequential", "cancelled")]),
]
"""For each instrument, the results of a run whose second pass is cancelled."""


@pytest.mark.parametrize(("setup", "expected"), CANCELLED)
@pytest.mark.both_loops
async def test_cancelled_passes_are_distinguished_from_failed_ones(
    setup: Setup, expected: object, tmp_path: Path
) -> None:
    started = anyio.Event()

    @apass.function_pass(opt_level=0)
    async def Forever(func: int, mod: Module, ctx: apass.PassContext) -> int:
        started.set()
        await anyio.sleep_forever()
        return func

    async def optimize(instrument: object) -> None:
        async with apass.PassContext(instruments=[instrument]):
            await apass.optimize_all({"m": {"f": 1}}, apass.Sequential([Increment, Forever]))

    with listening() as log:
        instrument, read = setup(tmp_path, log)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(optimize, instrument)
            await started.wait()
            tasks.cancel_scope.cancel()
    assert read() == expected


def log_events(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    return LoggingInstrument(), log.events


def span_tree(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    recorder = Recorder()
    return OpenTelemetryInstrument(recorder.tracer, functions=True), recorder.tree


def pass_timings(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    instrument = PassTimingInstrument()

    def read() -> object:
        check_times(instrument.profile())
        return shapes(instrument.profile())

    return instrument, read


def function_timings(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    instrument = FunctionTimingInstrument(top=10_000)

    def read() -> list[tuple[object, ...]]:
        timings = instrument.slowest()
        rows = ((str(item.module), item.function, item.path, item.failed, item.busy <= item.wall) for item in timings)
        return sorted(rows)

    return instrument, read


def provenance(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    instrument = ProvenanceInstrument()
    return instrument, lambda: instrument.modules


def trace_outline(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    path = folder / "trace.json"
    return TraceInstrument(path), lambda: outline(read_trace(path))


@pytest.mark.parametrize(
    "setup",
    [log_events, span_tree, pass_timings, function_timings, trace_outline, report_runs, provenance],
    ids=lambda f: f.__name__,
)
async def test_instrument_installed_twice_records_once(setup: Setup, tmp_path: Path) -> None:
    async def result(times: int) -> Any:
        with listening() as log:
            instrument, read = setup(tmp_path / str(times), log)
            async with apass.PassContext(instruments=[instrument] * times):
                # `Tune` calls a pass from a function body, so there are nested passes, too.
                await apass.optimize_all({"m": {"f": 1}}, apass.Sequential([Increment, Tune, Spin]))
            return read()

    once = await result(1)
    assert once
    assert await result(2) == once


def sorted_log(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    return LoggingInstrument(), lambda: sorted(map(str, log.events()))


def span_paths(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    recorder = Recorder()

    def read() -> list[str]:
        spans = {span.context.span_id: span for span in recorder.spans if span.context is not None}

        def path(span: ReadableSpan) -> str:
            return f"{span.name} < {path(spans[span.parent.span_id])}" if span.parent is not None else span.name

        return sorted(f"{path(span)} {sorted(attributes(span).items())} {len(span.events)}" for span in recorder.spans)

    return OpenTelemetryInstrument(recorder.tracer, functions=True), read


def trace_slices(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    path = folder / "trace.json"

    def read() -> list[tuple[str, str, str]]:
        events = read_trace(path)
        tracks = {track: name.partition(" ")[0] for track, name in track_names(events).items()}
        return sorted(
            (tracks[item["pid"], item["tid"]], item["name"], str(sorted(item["args"].items())))
            for item in slices(events)
            if item["cat"] in ("pass", "function")
        )

    return TraceInstrument(path), read


def report_page(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    report = ReportInstrument()
    return report, lambda: without_times(report)


def statistics(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    instrument = StatisticsInstrument()
    return instrument, lambda: instrument.totals(merge=False)


def remarks(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    instrument = RemarksInstrument()
    return instrument, instrument.render


def printed_changes(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    file = io.StringIO()
    return PrintChanged(file=file), lambda: sorted(file.getvalue().split("\n\n"))


def dumped_files(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    def read() -> dict[str, list[str]]:
        # The widths of columns depend on the times.
        files = texts_without_times(folder).items()
        return {name: sorted(" ".join(line.split()) for line in text.splitlines()) for name, text in files}

    return DumpTree(folder), read


def reproducers(folder: Path, log: RecordHandler) -> tuple[object, Callable[[], Any]]:
    def read() -> dict[str, bytes]:
        return {name: (folder / name).read_bytes() for name in files(folder) if not name.endswith("traceback.txt")}

    return ReproducerInstrument(folder), read


@pytest.mark.slow
@pytest.mark.parametrize(
    "setup",
    [
        sorted_log,
        span_paths,
        pass_timings,
        function_timings,
        trace_slices,
        report_page,
        statistics,
        provenance,
        remarks,
        printed_changes,
        dumped_files,
        reproducers,
    ],
    ids=lambda f: f.__name__,
)
async def test_concurrent_modules_are_recorded_like_sequential_ones(setup: Setup, tmp_path: Path) -> None:
    async def result(limit: int | None) -> tuple[set[str], Any]:
        with listening() as log:
            instrument, read = setup(tmp_path / str(limit), log)
            outcomes = await run_crowd([instrument], limit=limit)
        return failing(outcomes), read()

    together, alone = await result(None), await result(1)
    assert 4 < len(alone[0]) < 40
    assert alone[1]
    assert together == alone
