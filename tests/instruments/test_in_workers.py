"""Built-in instruments record the same in executors as in this event loop."""

import json
import logging
import re
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import anyio
import pytest
from rich.console import Console

from apass import PassContext, Sequential, optimize_all
from apass.errors import VerifyError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from apass.instruments import (
    DumpTree,
    ExecOnChange,
    FunctionTimingInstrument,
    HonestChangeInstrument,
    LocationCheckInstrument,
    LoggingInstrument,
    PassMemoryInstrument,
    PassPrintingInstrument,
    PassTiming,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    PrintChanged,
    PrintIRAfter,
    PrintIRBefore,
    PrintIRFailed,
    ProvenanceInstrument,
    RemarksInstrument,
    ReportInstrument,
    ReproducerInstrument,
    StatisticsInstrument,
    TraceInstrument,
    VerifyInstrument,
    events,
)
from apass.instruments.live_view import LiveViewInstrument
from apass.instruments.otel import OpenTelemetryMetrics
from apass.instruments.progress import ProgressInstrument
from tests.executors import work
from tests.executors.files import pid_in
from tests.helpers.folders import files
from tests.helpers.reports import texts_of
from tests.helpers.spans import MetricRecorder

pytestmark = [pytest.mark.anyio, pytest.mark.process]

MODULES = {
    "good": {"a": "fine", "b": "fine"},
    "bad": {"a": "fine", "b": "plain"},
    "Good": {"a": "fine"},
    "odd/name": {"a": "fine"},
}
PASSES = Sequential([work.Report, Sequential([work.Report, work.Fail]), work.Report])
every_executor = pytest.mark.parametrize(
    "executor", [ThreadExecutor(workers=2), ProcessExecutor(workers=2)], ids=["threads", "processes"]
)


async def errors_of(executor: Executor | None, *instruments: object) -> dict[str, Any]:
    """Run `PASSES` twice, and return the errors of the second run by module."""
    async with PassContext(instruments=instruments):
        await optimize_all(MODULES, PASSES, errors="collect", executor=executor, limit=1)
        outcomes = await optimize_all(MODULES, PASSES, errors="collect", executor=executor, limit=1)
    return {name: outcome.error for name, outcome in outcomes.items()}


def tree(timings: tuple[PassTiming, ...]) -> list[Any]:
    """Return timings without their times."""
    return [
        (
            (item.name, item.module, item.calls, item.failed, item.unfinished, item.wall >= item.busy > 0),
            tree(item.children),
        )
        for item in timings
    ]


def spans(path: Path) -> list[Any]:
    """Return the passes and functions of a trace, with the names of their tracks."""
    events = json.loads(path.read_text())["traceEvents"]
    ours = [event for event in events if event["pid"] == 1]
    names = {event["tid"]: event["args"]["name"] for event in ours if event["name"] == "thread_name"}
    return sorted(
        (names[event["tid"]], event["name"], event["cat"], sorted(event["args"].items()), event["dur"] >= 0)
        for event in ours
        if event["ph"] == "X" and event["cat"] != "wait"
    )


def report_of(report: ReportInstrument) -> list[Any]:
    """Return a report without times."""
    record = report.record()
    texts = dict(enumerate(texts_of(report.render())))
    runs = [
        (
            (run.module, run.steps, run.status, texts.get(run.before), texts.get(run.after), dict(run.statistics)),
            run.failure and (run.failure.kind, run.failure.message),
            record.origin <= run.start <= run.end,
        )
        for run in record.runs
    ]
    bodies = [(body.module, body.steps, body.function, body.status) for body in record.bodies if body.status]
    return [runs, bodies, record.remarks, record.left_out, sorted(record.failures)]


MAKE_AND_OBSERVE: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (PassTimingInstrument, lambda it: (tree(it.profile()), tree(it.profile(merge=True)))),
    (
        lambda: FunctionTimingInstrument(top=100),
        lambda it: sorted((x.module, x.function, x.path, x.failed) for x in it.slowest()),
    ),
    (lambda: FunctionTimingInstrument(top=3), lambda it: len(it.slowest())),
    (StatisticsInstrument, lambda it: it.totals(merge=False)),
    (ProvenanceInstrument, lambda it: it.modules),
    (LocationCheckInstrument, lambda it: it.results),
    (RemarksInstrument, lambda it: it.remarks),
    (lambda: RemarksInstrument("Rep.*", limit=5), lambda it: (len(it.remarks), it.dropped)),
    (PassMemoryInstrument, lambda it: sorted((x.name, x.calls, x.peak > 0) for x in it.profile())),
    (ReportInstrument, report_of),
    # Bodies that are short and change nothing are not recorded, so their number depends on the time.
    (
        lambda: ReportInstrument(max_runs=7, max_remarks=3),
        lambda it: [(name, count) for name, count in it.record().left_out.items() if name != "work on functions"],
    ),
    (lambda: ReportInstrument(max_bytes=0), lambda it: (it.record().texts, it.record().left_out)),
    (lambda: ProgressInstrument(console=Console(file=StringIO())), lambda it: counts_of(it)),
    (lambda: LiveViewInstrument(console=Console(file=StringIO())), lambda it: counts_of(it)),
]


def counts_of(progress: ProgressInstrument) -> list[int]:
    """Return the counts of progress, without the time."""
    counts = progress.activity.counts()
    done = [counts.modules_done, counts.modules_failed, counts.passes_done, counts.functions_done]
    return [*done, counts.functions_failed, counts.modules, counts.passes, counts.functions]


@every_executor
@pytest.mark.parametrize(("make", "observe"), MAKE_AND_OBSERVE)
async def test_records_equal_those_of_the_event_loop(
    executor: Executor, make: Callable[[], Any], observe: Callable[[Any], Any]
) -> None:
    inline, remote = make(), make()
    await errors_of(None, inline)
    await errors_of(executor, remote)
    assert observe(remote) == observe(inline)


class Observed:
    """The instruments that show a module whose worker returned nothing."""

    def __init__(self, folder: Path) -> None:
        self.stream = events()
        self.timing = PassTimingInstrument()
        self.report = ReportInstrument()
        self.progress = ProgressInstrument(console=Console(file=StringIO()))
        self.trace = TraceInstrument(folder / "trace.json")
        self.metrics = MetricRecorder()

    def context(self) -> PassContext:
        """Return a context with the instruments."""
        metrics = OpenTelemetryMetrics(self.metrics.meter)
        return PassContext(
            instruments=[
                *(self.stream, self.timing, self.report, self.progress),
                *(self.trace, metrics, LoggingInstrument()),
            ]
        )

    async def check(self, name: str, outcome: str, error: str) -> None:
        """Check that every instrument has one run, of the pass `name`."""
        position = f"0:{name}"
        (event,) = [event async for event in self.stream]
        assert (event.kind, event.module, event.path, event.seconds > 0) == ("failed", "m", position, True)
        assert event.as_json()["error"].split(":")[0] == error
        (timing,) = self.timing.profile()
        assert (timing.name, timing.module, timing.calls, timing.failed, timing.unfinished) == (name, "m", 1, 1, 0)
        (run,) = self.report.record().runs
        assert (run.module, run.steps, run.status.name) == ("m", ((0, name, None),), outcome.upper())
        assert counts_of(self.progress) == [1, 1, 1, 0, 0, 0, 0, 0]
        ((track, *_, args, _),) = spans(self.trace.path)
        assert (track, dict(args)["position"], dict(args)["error"].split(":")[0]) == ("m", position, error)
        assert self.metrics.points()["apass.module.runs"][0][0][0] == outcome


async def test_lost_worker_is_a_failed_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    observed = Observed(tmp_path)
    async with observed.context():
        await optimize_all(
            {"m": {"a": "deadly"}}, work.DieAlways, errors="collect", executor=ProcessExecutor(workers=1)
        )
    await observed.check("DieAlways", "failed", "WorkerLostError")
    assert [(item.message, item.levelname) for item in caplog.records] == [("pass_failed", "ERROR")]


@every_executor
@pytest.mark.both_loops
async def test_cancelled_worker_is_a_cancelled_run(
    executor: Executor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observed, path = Observed(tmp_path), tmp_path / "pid"
    async with observed.context(), anyio.create_task_group() as group:

        async def optimize() -> None:
            await optimize_all({"m": {"a": str(path)}}, work.RecordAndWait, executor=executor)

        group.start_soon(optimize)
        await pid_in(path)
        group.cancel_scope.cancel()
    await observed.check("RecordAndWait", "cancelled", "cancelled")
    assert [(item.message, item.levelname) for item in caplog.records] == [("pass_failed", "WARNING")]


PRINTING: list[Callable[[StringIO], object]] = [
    lambda file: PrintIRBefore(["Fail"], file, modules=["g*"], functions=["a"]),
    lambda file: PrintIRAfter(file=file),
    lambda file: PrintIRFailed(file=file),
    lambda file: PassPrintingInstrument(["Fail"], ["Report"], file),
    PrintBeforeAll,
    PrintAfterAll,
    lambda file: PrintChanged(file=file, color=True, context=0),
    lambda file: ExecOnChange([sys.executable, "-c", "import sys; print(sys.argv[1])", "{pass}"], file=file),
]


@every_executor
@pytest.mark.parametrize("make", PRINTING)
async def test_text_equals_that_of_the_event_loop(executor: Executor, make: Callable[[StringIO], object]) -> None:
    inline, remote = StringIO(), StringIO()
    await errors_of(None, make(inline))
    await errors_of(executor, make(remote))
    assert remote.getvalue() == inline.getvalue() != ""


@every_executor
async def test_trace_shows_passes_of_workers(executor: Executor, tmp_path: Path) -> None:
    await errors_of(None, TraceInstrument(tmp_path / "inline.json"))
    await errors_of(executor, TraceInstrument(tmp_path / "remote.json"))
    assert spans(tmp_path / "remote.json") == spans(tmp_path / "inline.json") != []


@every_executor
async def test_dumped_files_equal_those_of_the_event_loop(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[dict[str, str]] = []
    for name, where in (("inline", None), ("remote", executor)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        await errors_of(where, DumpTree("dump"))
        folder = tmp_path / name / "dump"
        texts.append({path: re.sub(r"\d+\.\d{3}", "TIME", (folder / path).read_text()) for path in files(folder)})
    inline, remote = ({path: " ".join(text.split()) for path, text in each.items()} for each in texts)
    assert remote == inline != {}


@every_executor
async def test_reproducers_equal_those_of_the_event_loop(executor: Executor, tmp_path: Path) -> None:
    inline, remote = ReproducerInstrument(tmp_path / "inline"), ReproducerInstrument(tmp_path / "remote")
    await errors_of(None, inline)
    error = (await errors_of(executor, remote))["bad"]
    assert files(remote.reproducer_dir) == files(inline.reproducer_dir) != []
    assert [path.relative_to(tmp_path / "remote") for path in remote.folders] == [
        path.relative_to(tmp_path / "inline") for path in inline.folders
    ]
    assert error.__notes__.count(f"reproducer: {remote.folders[-1]}") == 1


@every_executor
async def test_log_records_equal_those_of_the_event_loop(executor: Executor, caplog: pytest.LogCaptureFixture) -> None:
    logged: list[list[Any]] = []
    for where in (None, executor):
        caplog.clear()
        with caplog.at_level(logging.INFO, "apass"):
            await errors_of(where, LoggingInstrument(), CheckNotes())
        fields = ("pass_name", "pass_path", "module_name", "function", "changed", "error")
        logged.append(
            [
                (
                    (record.name, record.levelname, record.getMessage()),
                    [getattr(record, name, None) for name in fields],
                    record.exc_info and (record.exc_info[0], str(record.exc_info[1])),
                )
                for record in caplog.records
                if record.name.startswith("apass.")
            ]
        )
        assert [record.created for record in caplog.records] == sorted(record.created for record in caplog.records)
    assert logged[1] == logged[0] != []


class CheckNotes:
    """Fails if an instrument before it has replaced the notes of an error by text."""

    name = "CheckNotes"

    def run_after_pass_failed(self, mod: Any, info: Any, error: BaseException) -> None:
        """Check that notes refer to runs."""
        assert any(hasattr(note, "run") for note in getattr(error, "__notes__", ()))

    def for_worker(self) -> Callable[[], object]:
        """Return the class."""
        return CheckNotes


@every_executor
@pytest.mark.parametrize(
    ("instrument", "pass_", "message"),
    [
        (VerifyInstrument(), work.Break, "pass 'Break' broke the module: function 'a' of a dict module is None"),
        (HonestChangeInstrument(), work.Dishonest, r"pass 'Dishonest' changed its input in place \('a'\)"),
    ],
)
async def test_verification_fails_in_the_worker(
    executor: Executor, instrument: object, pass_: Any, message: str
) -> None:
    async with PassContext(instruments=[instrument]):
        with pytest.raises(VerifyError, match=message):
            await optimize_all([{"a": 1}], pass_, executor=executor)
