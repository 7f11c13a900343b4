"""What instruments cost: each alone and all together on models of the ONNX corpus, as a ratio to none.

    PYTHONPATH=. python benchmarks/instruments.py [--models 100] [--rounds 5] [--backend asyncio]

All jobs run by turns, after a round that does not count. A row is the median of its rounds, in seconds of the
processor; those of threads that write files are included. "us a pass" is what each run of a pass costs more than
without. The models are small, so that a pass takes well below a millisecond: with larger ones the ratios are smaller.
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
import onnx_ir as ir
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

import apass
import apass.instruments as known
from apass.instruments.live_view import LiveViewInstrument
from apass.instruments.otel import OpenTelemetryInstrument
from apass.instruments.progress import ProgressInstrument
from examples.optimize_onnx_corpus import load_cases

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
}
"""What looks at passes, and not into modules."""

LOOKING: Mapping[str, Make] = {
    "PrintChanged": lambda _: known.PrintChanged(file=io.StringIO()),
    "VerifyInstrument": lambda _: known.VerifyInstrument(),
    "HonestChangeInstrument": lambda _: known.HonestChangeInstrument(),
    "DumpTree": lambda folder: known.DumpTree(folder / "tree"),
    "DumpIR": lambda folder: known.DumpIR(folder / "dump"),
    "ReportInstrument": lambda _: known.ReportInstrument(),
}
"""What prints, checks or writes modules."""

TRACING: Mapping[str, Make] = {"PassMemoryInstrument": lambda _: known.PassMemoryInstrument()}
"""What makes Python itself slower, and so is in no row with others."""

ROWS: Mapping[str, Iterable[Make]] = {
    "none": (),
    **{name: (make,) for name, make in (MEASURING | LOOKING | TRACING).items()},
    "all that do not look into modules": tuple(MEASURING.values()),
    "all but memory": tuple((MEASURING | LOOKING).values()),
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


async def main(count: int, rounds: int) -> None:
    """Print the table."""
    models = {f"{place:04}/{case.name}": case.model for place, case in enumerate(load_cases(count))}
    counter = Count()
    await optimize(models, [counter])
    times = await measure(models, rounds)
    none = statistics.median(times["none"])
    print(f"{len(models)} models, {counter.runs} runs of passes, {none * 1e3:.0f} ms without instruments\n")
    print(f"{'instrument':<36} {'ratio':>6} {'us a pass':>10}")
    for name, spent in times.items():
        median = statistics.median(spent)
        print(f"{name:<36} {median / none:6.2f} {(median - none) / counter.runs * 1e6:10.1f}", flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--models", type=int, default=100)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--backend", default="asyncio")
    given = arguments.parse_args()
    logging.getLogger("apass").setLevel(logging.INFO)
    logging.getLogger("apass").addHandler(logging.StreamHandler(io.StringIO()))
    logging.getLogger("apass").propagate = False
    anyio.run(main, given.models, given.rounds, backend=given.backend)
