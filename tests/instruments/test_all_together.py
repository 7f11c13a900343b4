"""All instruments together record the same concurrently as one by one."""

import io
import json
import logging
import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

import apass
from apass import instruments
from apass.instruments.otel import OpenTelemetryInstrument
from apass.instruments.progress import ProgressInstrument
from tests.helpers.amounts import amount

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

Module = dict[str, int]


@apass.register_pass("together.Step")
def _step(amount: int = 1) -> apass.Pass[Module]:
    async def step(func: int, mod: Module, ctx: apass.PassContext) -> int:
        for _ in range(random.Random(func).randrange(3)):
            await anyio.lowlevel.checkpoint()
        # Only in modules of one function: if two bodies run, the time at which a failure cancels the other varies.
        if func % 31 == 7 and len(mod) == 1:
            raise ValueError("seven")
        if func % 3 == 0:
            ctx.statistic("thirds")
            ctx.remark(apass.Remark.missed("Third", f"{func} is left", value=func))
            return func
        return func + amount

    return apass.function_pass(step, opt_level=0, name="together.Step")


@apass.register_pass("together.Check")
def _check() -> apass.Pass[Module]:
    async def check(mod: Module, ctx: apass.PassContext) -> Module:
        await anyio.lowlevel.checkpoint()
        if sum(mod.values()) % 5 == 0:
            raise RuntimeError("a multiple of five")
        return mod

    return apass.module_pass(check, opt_level=0, name="together.Check")


PIPELINE: apass.Pass[Module] = apass.parse_pipeline(
    "together.Step,Repeat{times=2}(together.Step{amount=2}),together.Check,Sequential{name=inner}(together.Step)"
)
COUNT = amount(60, least=16)
MODULES = {f"m{index}": {"f": index} if index % 2 else {"f": index % 31, "g": 3 * index} for index in range(COUNT)}


class _Everything:
    """One instance of each instrument, and the results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.printed = io.StringIO()
        self.spans = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.timing = instruments.PassTimingInstrument()
        self.functions = instruments.FunctionTimingInstrument(top=10_000)
        self.memory = instruments.PassMemoryInstrument()
        self.statistics = instruments.StatisticsInstrument()
        self.remarks = instruments.RemarksInstrument()
        self.provenance = instruments.ProvenanceInstrument()
        self.report = instruments.ReportInstrument(provenance=self.provenance)
        self.steps: list[instruments.BisectStep] = []
        self.progress = io.StringIO()
        self.all: list[object] = [
            instruments.PrintIRBefore(file=self.printed),
            instruments.PrintIRAfter(file=self.printed),
            instruments.PrintChanged(file=self.printed),
            instruments.PassPrintingInstrument(["inner"], ["inner"], file=self.printed),
            instruments.PrintBeforeAll(file=self.printed),
            instruments.PrintAfterAll(file=self.printed),
            instruments.DumpIR(folder / "flat"),
            instruments.DumpTree(folder / "tree"),
            instruments.HonestChangeInstrument(),
            instruments.VerifyInstrument("always"),
            instruments.BisectInstrument(limit=5, report=self.steps.append),
            instruments.LoggingInstrument(),
            instruments.TraceInstrument(folder / "trace.json"),
            OpenTelemetryInstrument(provider.get_tracer("test"), functions=True),
            instruments.ReproducerInstrument(folder / "failed"),
            ProgressInstrument(len(MODULES), console=Console(file=self.progress, width=200)),
            self.timing,
            self.functions,
            self.memory,
            self.statistics,
            self.remarks,
            self.provenance,
            instruments.LocationCheckInstrument(),
            self.report,
        ]

    def results(self) -> dict[str, Any]:
        """Return all results without times, sorted or counted."""
        record = self.report.record()
        return {
            "printed": Counter(self.printed.getvalue().split("\n\n")),
            "files": {str(path.relative_to(self.folder)): _timeless(path) for path in _texts(self.folder)},
            "bisect": Counter((str(item.position), item.runs) for item in self.steps),
            "trace": Counter(_traced(self.folder / "trace.json")),
            "spans": Counter((item.name, item.status.status_code) for item in self.spans.get_finished_spans()),
            "timing": _calls(self.timing.profile()),
            "functions": Counter(
                (item.module, item.function, item.path, item.failed) for item in self.functions.slowest()
            ),
            "memory": sorted((item.name, item.calls) for item in self.memory.profile()),
            "statistics": self.statistics.totals(merge=False),
            "remarks": Counter(map(repr, self.remarks.remarks)),
            "report": Counter((item.module, item.steps, item.status) for item in record.runs),
            "bodies": Counter((item.module, item.steps, item.function, item.status) for item in record.bodies),
            "provenance": record.provenance,
            "stored texts": len(record.texts),
        }


def _texts(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix in (".txt", ".json"))


def _traced(path: Path) -> Iterable[str]:
    """Return the names of events, because slices and tracks vary between runs."""
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return sorted({f"{event['name']} {event.get('args', {}).get('path')}" for event in events if event["ph"] != "M"})


def _timeless(path: Path) -> object:
    """Return the text of a file without times and line numbers."""
    if path.name == "trace.json":
        return "compared separately"
    text = path.read_text()
    if "failed" in path.parts:
        return path.suffix if path.name != "module.json" else text
    return re.sub(r" +", " ", re.sub(r" *\d+\.\d{3}( ms| s|  )", r" T\1", text)).replace("\n ", "\n")


def _calls(profile: Iterable[instruments.PassTiming]) -> list[tuple[str, str, int, int, str]]:
    return sorted(
        (item.module or "", item.name, item.calls, item.failed, str(_calls(item.children))) for item in profile
    )


async def run_with_everything(folder: Path, limit: int, concurrency: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Run all modules, and return the instruments' results and the errors."""
    everything = _Everything(folder)
    async with apass.PassContext(instruments=everything.all, max_concurrency=concurrency):
        outcomes = await apass.optimize_all(MODULES, PIPELINE, limit=limit, errors="collect")
    return everything.results(), {name: str(item.error) for name, item in outcomes.items() if item.error is not None}


Results = tuple[dict[str, Any], dict[str, str], Counter[Any]]


def _logged(caplog: pytest.LogCaptureFixture) -> Counter[Any]:
    return Counter((entry.levelname, entry.name, *_fields(entry)) for entry in caplog.records)


def _fields(entry: logging.LogRecord) -> tuple[object, ...]:
    names = ("pass_path", "apass_module", "function", "module_name")
    return (entry.msg, *(getattr(entry, name, None) for name in names))


class _RecordHandler(logging.Handler):
    """Stores log records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of a run with one module and one function body at a time."""
    handler = _RecordHandler()
    log = logging.getLogger("apass")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        results, failed = anyio.run(run_with_everything, tmp_path_factory.mktemp("one"), 1, 1)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return results, failed, Counter((entry.levelname, entry.name, *_fields(entry)) for entry in handler.records)


async def test_instruments_record_concurrent_modules_like_single_modules(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, one_by_one: Results
) -> None:
    caplog.set_level(logging.DEBUG, "apass")
    results, failed = await run_with_everything(tmp_path, COUNT, 256)
    assert (failed, COUNT / 10 < len(failed) < 0.9 * COUNT) == (one_by_one[1], True)
    assert _logged(caplog) == one_by_one[2]
    assert results.keys() == one_by_one[0].keys()
    for kind in results:
        assert results[kind] == one_by_one[0][kind], kind
