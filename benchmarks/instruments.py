"""Cost of instruments on the models of onnx, as a ratio to a run without any.

    python -m benchmarks.instruments [--only instruments.few_models] [--rounds 1] [--backend asyncio|trio|both]

The models are the 149 in onnx's test data, ResNet-50 and DenseNet-121 among them, or 8 of these for a first look.
All jobs run alternately, after a warm-up round. Times are of the processor, including that of threads that write files.
"""

import gc
import io
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import process_time

import onnx
import onnx_ir as ir
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

import apass
import apass.instruments
from apass.adapters.onnx import load_model
from apass.instruments.live_view import LiveViewInstrument
from apass.instruments.otel import OpenTelemetryInstrument
from apass.instruments.progress import ProgressInstrument
from benchmarks.area import Benchmark, main
from benchmarks.measure import record_rounds

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

Make = Callable[[Path], object]
"""Returns an instrument, which may write into the folder."""


def spans(_: Path) -> object:
    """Return an instrument whose spans are exported in a thread."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    return OpenTelemetryInstrument(provider.get_tracer("benchmark"), functions=True)


def quiet() -> Console:
    """Return a console that discards its output."""
    return Console(file=io.StringIO())


MEASURING: dict[str, Make] = {
    "PassTimingInstrument": lambda _: apass.instruments.PassTimingInstrument(),
    "FunctionTimingInstrument": lambda _: apass.instruments.FunctionTimingInstrument(),
    "StatisticsInstrument": lambda _: apass.instruments.StatisticsInstrument(),
    "RemarksInstrument": lambda _: apass.instruments.RemarksInstrument(),
    "TraceInstrument": lambda folder: apass.instruments.TraceInstrument(folder / "trace.json"),
    "OpenTelemetryInstrument": spans,
    "ProgressInstrument": lambda _: ProgressInstrument(console=quiet()),
    "LiveViewInstrument": lambda _: LiveViewInstrument(console=quiet()),
    "LoggingInstrument": lambda _: apass.instruments.LoggingInstrument(),
    "ReproducerInstrument": lambda folder: apass.instruments.ReproducerInstrument(folder / "reproducers"),
    "AnswerRecorder": lambda folder: apass.instruments.AnswerRecorder(folder / "answers"),
    "BisectInstrument": lambda _: apass.instruments.BisectInstrument(-1),
}
"""Instruments that do not read modules."""

LOOKING: dict[str, Make] = {
    "PrintBeforeAll": lambda _: apass.instruments.PrintBeforeAll(file=io.StringIO()),
    "PrintAfterAll": lambda _: apass.instruments.PrintAfterAll(file=io.StringIO()),
    "PrintChanged": lambda _: apass.instruments.PrintChanged(file=io.StringIO()),
    "VerifyInstrument": lambda _: apass.instruments.VerifyInstrument(),
    "HonestChangeInstrument": lambda _: apass.instruments.HonestChangeInstrument(),
    "DumpTree": lambda folder: apass.instruments.DumpTree(folder / "tree"),
    "DumpIR": lambda folder: apass.instruments.DumpIR(folder / "dump"),
    "ReportInstrument": lambda _: apass.instruments.ReportInstrument(),
    "ProvenanceInstrument": lambda _: apass.instruments.ProvenanceInstrument(),
    "LocationCheckInstrument": lambda _: apass.instruments.LocationCheckInstrument(),
}
"""Instruments that print, check or write modules."""

WRITING: dict[str, Make] = {
    "ReproducerInstrument(crash_safe)": lambda folder: apass.instruments.ReproducerInstrument(
        folder / "inputs", crash_safe=True
    ),
}
"""Instruments that write each module before each pass, and are not part of a sum."""

PAUSING: dict[str, Make] = {"PauseInstrument": lambda _: apass.instruments.PauseInstrument()}
"""Instruments that change how passes run, here without a breakpoint; not part of a sum."""

TRACING: dict[str, Make] = {"PassMemoryInstrument": lambda _: apass.instruments.PassMemoryInstrument()}
"""Instruments that slow down Python, and so every other instrument in their row."""

ROWS: Mapping[str, Iterable[Make]] = {
    "none": (),
    **{name: (make,) for name, make in (MEASURING | LOOKING | WRITING | PAUSING | TRACING).items()},
    "all that do not look into modules": tuple(MEASURING.values()),
    "all but memory": tuple((MEASURING | LOOKING).values()),
    "all together": tuple((MEASURING | LOOKING | TRACING).values()),
}


async def optimize(models: Mapping[str, ir.Model], instruments: Iterable[object]) -> None:
    """Run the default pipeline on all models concurrently."""
    async with apass.PassContext(opt_level=3, instruments=instruments):
        await apass.optimize_all(models, apass.parse_pipeline("onnx.Default"), errors="collect")


async def measure(models: Mapping[str, ir.Model], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each row in each round."""
    times: dict[str, list[float]] = {name: [] for name in ROWS}
    for round_number in range(rounds + 1):
        for name, makes in ROWS.items():
            with tempfile.TemporaryDirectory() as folder:
                instruments = [make(Path(folder)) for make in makes]
                gc.collect()
                start = process_time()
                await optimize(models, instruments)
                elapsed = process_time() - start
            if round_number:
                times[name].append(elapsed)
    return times


def corpus(count: int | None) -> dict[str, ir.Model]:
    """Return the models in onnx's test data, or `count` evenly spread ones."""
    paths = sorted([*DATA.glob("*/*/model.onnx"), *(DATA / "light").glob("*.onnx")])
    if count is not None:
        paths = [paths[index * len(paths) // count] for index in range(min(count, len(paths)))]
    return {str(path.relative_to(DATA)): load_model(path) for path in paths}


async def all_models(rounds: int) -> None:
    """Compare all models with instruments to the same without."""
    await instruments(corpus(None), rounds)


async def few_models(rounds: int) -> None:
    """Compare the same on 8 models, for a first look."""
    await instruments(corpus(8), rounds)


async def instruments(models: Mapping[str, ir.Model], rounds: int) -> None:
    """Record a row for each line of `ROWS`."""
    logger = logging.getLogger("apass")
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.propagate = False
    times = await measure(models, rounds)
    baseline = times.pop("none")
    for name, spent in times.items():
        record_rounds(name, spent, baseline, None, f"none, {len(models)} models")


BENCHMARKS = (Benchmark(all_models, rounds=1), Benchmark(few_models, rounds=3))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
