"""Every instrument at once, on two hundred modules of which some fail: each tells what it tells of a sequential run."""

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

pytestmark = pytest.mark.anyio

Module = dict[str, int]


@apass.register_pass("together.Step")
def _step(amount: int = 1) -> apass.Pass[Module]:
    async def step(func: int, mod: Module, ctx: apass.PassContext) -> int:
        for _ in range(random.Random(func).randrange(3)):
            await anyio.lowlevel.checkpoint()
        # Alone in its module: of two bodies, the failure of one cuts off the other sooner or later.
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
MODULES = {f"m{index}": {"f": index} if index % 2 else {"f": index % 31, "g": 3 * index} for index in range(200)}


class _Everything:
    """One of each instrument, and what they tell."""

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
        self.report = instruments.ReportInstrument()
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
            self.report,
        ]

    def told(self) -> dict[str, Any]:
        """Return everything that they tell, in an order of its own, without times."""
        record = self.report.record()
        return {
            "printed": Counter(self.printed.getvalue().split("\n\n")),
            "files": {str(path.relative_to(self.folder)): _timeless(path) for path in _texts(self.folder)},
            "bisect": Counter((str(one.position), one.runs) for one in self.steps),
            "trace": Counter(_traced(self.folder / "trace.json")),
            "spans": Counter((one.name, one.status.status_code) for one in self.spans.get_finished_spans()),
            "timing": _calls(self.timing.profile()),
            "functions": Counter((one.module, one.function, one.path, one.failed) for one in self.functions.slowest()),
            "memory": sorted((one.name, one.calls) for one in self.memory.profile()),
            "statistics": self.statistics.totals(merge=False),
            "remarks": Counter(map(repr, self.remarks.remarks)),
            "report": Counter((one.module, one.steps, one.status) for one in record.runs),
            "bodies": Counter((one.module, one.steps, one.function, one.status) for one in record.bodies),
            "kept texts": len(record.texts),
        }


def _texts(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and path.suffix in (".txt", ".json"))


def _traced(path: Path) -> Iterable[str]:
    """Give the names of what ran; how many pieces it ran in, and in which lane, is a matter of the run."""
    found = json.loads(path.read_text())
    events: list[dict[str, Any]] = found["traceEvents"]
    return sorted({f"{one['name']} {one.get('args', {}).get('path')}" for one in events if one["ph"] != "M"})


def _timeless(path: Path) -> object:
    """Return the text of a file without times, numbers of lines of code, and what is not in order."""
    if path.name == "trace.json":
        return "looked at for itself"
    text = path.read_text()
    if "failed" in path.parts:
        return path.suffix if path.name != "module.json" else text
    return re.sub(r" +", " ", re.sub(r" *\d+\.\d{3}( ms| s|  )", r" T\1", text)).replace("\n ", "\n")


def _calls(profile: Iterable[instruments.PassTiming]) -> list[tuple[str, str, int, int, str]]:
    return sorted((one.module or "", one.name, one.calls, one.failed, str(_calls(one.children))) for one in profile)


async def run_with_everything(folder: Path, limit: int, concurrency: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Run all modules; return what the instruments tell, and what failed."""
    everything = _Everything(folder)
    async with apass.PassContext(instruments=everything.all, max_concurrency=concurrency):
        outcomes = await apass.optimize_all(MODULES, PIPELINE, limit=limit, errors="collect")
    return everything.told(), {name: str(one.error) for name, one in outcomes.items() if one.error is not None}


Told = tuple[dict[str, Any], dict[str, str], Counter[Any]]


def _logged(caplog: pytest.LogCaptureFixture) -> Counter[Any]:
    return Counter((entry.levelname, entry.name, *_fields(entry)) for entry in caplog.records)


def _fields(entry: logging.LogRecord) -> tuple[object, ...]:
    kept = ("pass_path", "apass_module", "function", "module_name")
    return (entry.msg, *(getattr(entry, name, None) for name in kept))


class _Keeping(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(record)


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What is told of one module after the other, one body after the other."""
    handler = _Keeping()
    log = logging.getLogger("apass")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        told, failed = anyio.run(run_with_everything, tmp_path_factory.mktemp("one"), 1, 1)
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    return told, failed, Counter((entry.levelname, entry.name, *_fields(entry)) for entry in handler.seen)


async def test_all_instruments_tell_of_many_modules_what_they_tell_of_one_after_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, one_by_one: Told
) -> None:
    caplog.set_level(logging.DEBUG, "apass")
    told, failed = await run_with_everything(tmp_path, 200, 256)
    assert (failed, 20 < len(failed) < 180) == (one_by_one[1], True)
    assert _logged(caplog) == one_by_one[2]
    assert told.keys() == one_by_one[0].keys()
    for what in told:
        assert told[what] == one_by_one[0][what], what
