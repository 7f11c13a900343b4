"""What instruments cost: each alone and all together on the models that come with onnx, as a ratio to none.

    python benchmarks/instruments.py [--models N] [--rounds 5] [--backend asyncio]

The models are the 149 in onnx's test data, ResNet-50 and DenseNet-121 among them, or so many of these evenly spread.
All jobs run by turns, after a round that does not count. A row is the median of its rounds, in seconds of the
processor; those of threads that write files are included. "us a pass" is what each run of a pass costs more than
without.
"""

import argparse
import gc
import io
import logging
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import process_time

import anyio
import onnx
import onnx_ir as ir
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

import apass
import apass.instruments as known
from apass.adapters.onnx import load_model
from apass.instruments.live_view import LiveViewInstrument
from apass.instruments.otel import OpenTelemetryInstrument
from apass.instruments.progress import ProgressInstrument

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"

Make = Callable[[Path], object]
"""Makes an instrument, which may write into a folder."""


def spans(_: Path) -> object:
    """Spans, handed to an exporter in a thread."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    return OpenTelemetryInstrument(provider.get_tracer("benchmark"), functions=True)


def quiet() -> Console:
    """A console that nobody reads."""
    return Console(file=io.StringIO())


MEASURING: Mapping[str, Make] = {
    "PassTimingInstrument": lambda _: known.PassTimingInstrument(),
    "FunctionTimingInstrument": lambda _: known.FunctionTimingInstrument(),
    "StatisticsInstrument": lambda _: known.StatisticsInstrument(),
    "RemarksInstrument": lambda _: known.RemarksInstrument(),
    "TraceInstrument": lambda folder: known.TraceInstrument(folder / "trace.json"),
    "OpenTelemetryInstrument": spans,
    "ProgressInstrument": lambda _: ProgressInstrument(console=quiet()),
    "LiveViewInstrument": lambda _: LiveViewInstrument(console=quiet()),
    "LoggingInstrument": lambda _: known.LoggingInstrument(),
    "ReproducerInstrument": lambda folder: known.ReproducerInstrument(folder / "reproducers"),
    "BisectInstrument": lambda _: known.BisectInstrument(-1),
}
"""What looks at passes, and not into modules."""

LOOKING: Mapping[str, Make] = {
    "PrintBeforeAll": lambda _: known.PrintBeforeAll(file=io.StringIO()),
    "PrintAfterAll": lambda _: known.PrintAfterAll(file=io.StringIO()),
    "PrintChanged": lambda _: known.PrintChanged(file=io.StringIO()),
    "VerifyInstrument": lambda _: known.VerifyInstrument(),
    "HonestChangeInstrument": lambda _: known.HonestChangeInstrument(),
    "DumpTree": lambda folder: known.DumpTree(folder / "tree"),
    "DumpIR": lambda folder: known.DumpIR(folder / "dump"),
    "ReportInstrument": lambda _: known.ReportInstrument(),
}
"""What prints, checks or writes modules."""

TRACING: Mapping[str, Make] = {"PassMemoryInstrument": lambda _: known.PassMemoryInstrument()}
"""What makes Python itself slower, and so all others that are in a row with it."""

ROWS: Mapping[str, Iterable[Make]] = {
    "none": (),
    **{name: (make,) for name, make in (MEASURING | LOOKING | TRACING).items()},
    "all that do not look into modules": tuple(MEASURING.values()),
    "all but memory": tuple((MEASURING | LOOKING).values()),
    "all together": tuple((MEASURING | LOOKING | TRACING).values()),
}


@apass.pass_instrument
class Count:
    """Counts runs of passes."""

    runs = 0

    def run_before_pass(self, mod: object, info: apass.PassInfo) -> None:
        """Count one."""
        self.runs += 1


async def optimize(models: Mapping[str, ir.Model], instruments: Iterable[object]) -> None:
    """Run the default pipeline on all models at once."""
    async with apass.PassContext(opt_level=3, instruments=instruments):
        await apass.optimize_all(models, apass.parse_pipeline("onnx.Default"), errors="collect")


async def measure(models: Mapping[str, ir.Model], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each row, round by round."""
    times: dict[str, list[float]] = {name: [] for name in ROWS}
    for number in range(rounds + 1):
        for name, makes in ROWS.items():
            with tempfile.TemporaryDirectory() as folder:
                instruments = [make(Path(folder)) for make in makes]
                gc.collect()
                start = process_time()
                await optimize(models, instruments)
                spent = process_time() - start
            if number:
                times[name].append(spent)
    return times


def corpus(count: int | None) -> dict[str, ir.Model]:
    """Return the models in onnx's test data, or so many of them, evenly spread."""
    paths = sorted([*DATA.glob("*/*/model.onnx"), *(DATA / "light").glob("*.onnx")])
    chosen = paths if count is None else [paths[place * len(paths) // count] for place in range(min(count, len(paths)))]
    return {str(path.relative_to(DATA)): load_model(path) for path in chosen}


async def main(count: int | None, rounds: int) -> None:
    """Print the table."""
    models = corpus(count)
    counter = Count()
    await optimize(models, [counter])
    times = await measure(models, rounds)
    none = statistics.median(times["none"])
    print(f"{len(models)} models, {counter.runs} runs of passes, {none * 1e3:.0f} ms without instruments\n")
    print(f"| {'instrument':<34} | ratio to none | us a pass |")
    print(f"|{'-' * 36}|--------------:|----------:|")
    for name, spent in times.items():
        median = statistics.median(spent)
        print(f"| {name:<34} | {median / none:13.2f} | {(median - none) / counter.runs * 1e6:9.1f} |")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--models", type=int)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--backend", default="asyncio")
    given = arguments.parse_args()
    logging.getLogger("apass").setLevel(logging.INFO)
    logging.getLogger("apass").addHandler(logging.StreamHandler(io.StringIO()))
    logging.getLogger("apass").propagate = False
    anyio.run(main, given.models, given.rounds, backend=given.backend)
