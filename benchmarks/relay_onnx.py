"""Compare latencies of ONNX networks before and after Relay, and of two executors.

    pip install "apass[onnx,relay,runtime]"
    python -m benchmarks.relay_onnx                     # all nine light models of onnx; some minutes
    python -m benchmarks.relay_onnx squeezenet resnet50

The first table has the latency of each network in onnxruntime: as it is, and after an import to Relay, `relay.Default`
and the export to ONNX. The second table has the latency of the optimized network in Relay's evaluator, and with
`create_executor("onnxruntime")`. Latencies are medians. The runs of the two sides alternate in one process.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from apass import PassContext, relay, sync
from apass.relay.frontend import from_onnx
from apass.relay.interpreter.compare_outputs import difference
from examples.relay_light_models import LIGHT, draw_inputs, load_light_model

onnxruntime: Any = import_module("onnxruntime")

OPT_LEVEL = 3
"""The level of the passes."""


@dataclass(frozen=True, slots=True)
class Row:
    """The latencies of one network, in seconds."""

    name: str
    nodes: tuple[int, int]
    """Nodes of the ONNX model before and after."""
    before: float
    """Latency in onnxruntime as it is."""
    after: float
    """Latency in onnxruntime after Relay."""
    evaluator: float
    """Latency of the optimized network in Relay's evaluator."""
    executor: float
    """Latency of the same with the executor `onnxruntime`."""
    difference: str
    """How the outputs differ; empty if they do not."""


def measured(works: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Return the median times of calls, which alternate."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(rounds + 1):
        for samples, work in zip(times, works, strict=True):
            start = perf_counter()
            work()
            # The first round fills caches.
            if turn:
                samples.append(perf_counter() - start)
    return [median(samples) for samples in times]


def session_of(model: Any, threads: int) -> Any:
    """Return a session with onnxruntime's default optimizations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def measure(path: Path, rounds: int, threads: int) -> Row:
    """Measure one network."""
    original = load_light_model(path)
    feeds = draw_inputs(original)
    mod, _ = from_onnx(original, freeze_params=True)
    optimized = sync.run("relay.Default", mod, context=PassContext(opt_level=OPT_LEVEL))
    exported = relay.to_onnx(optimized)
    sessions = [session_of(model, threads) for model in (original, exported)]
    outputs = [tuple(np.asarray(output) for output in session.run(None, feeds)) for session in sessions]
    before, after = measured([partial(session.run, None, feeds) for session in sessions], rounds)
    arguments = list(feeds.values())
    works = [relay.create_executor(kind, optimized).evaluate() for kind in ("debug", "onnxruntime")]
    calls = [partial(work, *arguments) for work in works if callable(work)]
    evaluator, executor = measured(calls, max(1, rounds // 10))
    nodes = (len(original.graph.node), len(exported.graph.node))
    return Row(path.stem, nodes, before, after, evaluator, executor, difference(*outputs))


def table_of(rows: Sequence[Row]) -> Table:
    """Return the table with a row for each network."""
    table = Table(box=SIMPLE, pad_edge=False)
    columns = ("nodes", "before", "after", "ratio", "evaluator", "executor", "ratio", "outputs")
    table.add_column("network", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.name.removeprefix("light_"),
            f"{row.nodes[0]} -> {row.nodes[1]}",
            *(f"{seconds * 1e3:.1f} ms" for seconds in (row.before, row.after)),
            f"{row.after / row.before:.2f}",
            *(f"{seconds * 1e3:.1f} ms" for seconds in (row.evaluator, row.executor)),
            f"{row.executor / row.evaluator:.3f}",
            row.difference or "equal",
        )
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; return 1 if outputs differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="measure only networks whose names contain one of these words")
    parser.add_argument("--rounds", type=int, default=20, metavar="N", help="runs of each side (default 20)")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of onnxruntime (default 1)")
    options = parser.parse_args(arguments)
    paths = [
        path for path in sorted(LIGHT.glob("*.onnx")) if not options.names or any(map(path.stem.count, options.names))
    ]
    rows: list[Row] = []
    for path in paths:
        rows.append(measure(path, options.rounds, options.threads))
        print(f"{path.stem} measured", file=sys.stderr, flush=True)
    Console(width=140).print(table_of(rows))
    return 1 if any(row.difference for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
