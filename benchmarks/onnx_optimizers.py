"""Compare pipelines and other optimizers on the ONNX test corpus.

    pip install "apass[cli,onnx,onnxscript,onnxslim,runtime]"
    python -m benchmarks.onnx_optimizers                                  # every 8th model
    python -m benchmarks.onnx_optimizers --full ort.Basic onnxslim.Slim --json counts.json

For each pipeline the table has the nodes that it leaves, its failures, the models whose outputs it changes, and its
time. A failed pipeline leaves the model as it is. Models are evaluated on their own inputs in worker processes, by the
reference evaluator, or by onnxruntime if that cannot evaluate them.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import anyio
import onnx_ir as ir
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import apass
from apass.adapters.onnx import count_nodes
from apass.adapters.onnx.outputs import Status, Verdict, compare_outputs
from apass.pipelines.parser import parse_pipeline
from examples.optimize_onnx_corpus import Case, load_cases

PIPELINES = ("onnx.Default", "onnxscript.Optimize", "onnxslim.Slim", "ort.Basic", "ort.Extended")
"""The pipelines without arguments."""

PART = 254
"""Number of models without `--full`: one in eight."""


@dataclass(slots=True)
class Row:
    """The results of one pipeline."""

    pipeline: str
    nodes: dict[str, int] = field(default_factory=dict[str, int])
    """Nodes of each result, by the name of the model."""
    errors: dict[str, str] = field(default_factory=dict[str, str])
    """Errors, by the name of the model."""
    verdicts: dict[str, Verdict] = field(default_factory=dict[str, Verdict])
    """The verdicts of changed models."""
    seconds: float = 0.0
    """Total time of the passes, which run one after the other."""

    def with_status(self, *statuses: Status) -> list[str]:
        """Return the names of the models whose verdict has one of the statuses."""
        return [name for name, verdict in self.verdicts.items() if verdict.status in statuses]

    def changed(self) -> list[str]:
        """Return the names of the models whose outputs have changed."""
        return [name for name, verdict in self.verdicts.items() if verdict.changed]


async def measure(cases: Sequence[Case], text: str, jobs: int, time_limit: float) -> Row:
    """Run one pipeline on all models, and evaluate the changed models."""
    row, pipeline = Row(text), parse_pipeline(text)
    limiter, slots = anyio.CapacityLimiter(jobs), anyio.CapacityLimiter(4 * jobs)

    async def evaluate(case: Case, result: ir.Model) -> None:
        try:
            row.verdicts[case.name] = await verdict_on(case, result, limiter, time_limit)
        finally:
            slots.release_on_behalf_of(case.name)

    async with apass.PassContext(opt_level=3), anyio.create_task_group() as group:
        for case in cases:
            start = perf_counter()
            try:
                result = await pipeline(case.model)
            except apass.ApassError as error:
                row.errors[case.name] = f"{type(error).__name__}: {error}"
                row.nodes[case.name] = count_nodes(case.model)
                continue
            finally:
                row.seconds += perf_counter() - start
            row.nodes[case.name] = count_nodes(result)
            if result is not case.model:
                await slots.acquire_on_behalf_of(case.name)
                group.start_soon(evaluate, case, result)
    return row


async def verdict_on(case: Case, result: ir.Model, limiter: anyio.CapacityLimiter, time_limit: float) -> Verdict:
    """Return the verdict of the first data set with unequal outputs, or of the last."""
    verdict = Verdict(Status.NEITHER, "the case has no data")
    for inputs, outputs in case.data:
        verdict = await compare_outputs(
            case.model,
            result,
            inputs,
            expected=outputs,
            rtol=case.rtol,
            time_limit=time_limit,
            limiter=limiter,
            engines=("reference", "onnxruntime"),
        )
        if verdict.status is not Status.EQUAL:
            return verdict
    return verdict


def table_of(cases: Sequence[Case], rows: Sequence[Row]) -> Table:
    """Return the table with a row for each pipeline."""
    before = {case.name: count_nodes(case.model) for case in cases}
    unfailed = [name for name in before if not any(name in row.errors for row in rows)]
    table = Table(title=f"{len(cases)} models, {sum(before.values())} nodes", box=SIMPLE, pad_edge=False)
    table.add_column("pipeline", no_wrap=True)
    common = f"same, {len(unfailed)}\nunfailed"
    for column in ("nodes left", common, "models\nchanged", "outputs\nequal", "not\nevaluated", "outputs\nchanged"):
        table.add_column(column, justify="right")
    table.add_column("failed", justify="right")
    table.add_column("seconds", justify="right")
    table.add_row("(before)", str(sum(before.values())), str(sum(before[name] for name in unfailed)))
    for row in rows:
        equal = row.with_status(Status.EQUAL, Status.WRONG_ALIKE, Status.RANDOM)
        unknown = row.with_status(Status.NEITHER, Status.ONLY_AFTER)
        left = sum(row.nodes[name] for name in unfailed)
        counts = [row.verdicts, equal, unknown, row.changed(), row.errors]
        numbers = [str(sum(row.nodes.values())), str(left), *(str(len(count)) for count in counts)]
        table.add_row(row.pipeline, *numbers, f"{row.seconds:.1f}")
    return table


def show(cases: Sequence[Case], rows: Sequence[Row], console: Console) -> None:
    """Print the table, the most frequent errors, and the models with changed outputs."""
    console.print(table_of(cases, rows))
    for row in rows:
        reasons = Counter(error.split(": ", 2)[-1][:110] for error in row.errors.values())
        for reason, count in reasons.most_common(8):
            console.print(f"{row.pipeline}: {count} failed: {reason}", style="dim", markup=False)
        for name in sorted(row.changed()):
            verdict = row.verdicts[name]
            text = f"{row.pipeline}: changed {name}: {verdict.status.value}: {verdict.reason}"
            console.print(text, style="red", markup=False)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipelines", nargs="*", default=PIPELINES, help=f"default: {' '.join(PIPELINES)}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="all models with the nine big networks")
    size.add_argument("--part", type=int, default=PART, metavar="N", help=f"about N models (default {PART})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="N", help="worker processes")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S", help="seconds for one evaluation")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the nodes of each result, by model")
    return parser.parse_args(arguments)


async def run(args: argparse.Namespace, console: Console) -> int:
    """Measure all pipelines, one after the other; return 1 if outputs changed, else 0."""
    cases = load_cases(None if args.full else max(1, args.part))
    rows: list[Row] = []
    for text in args.pipelines:
        rows.append(await measure(cases, text, args.jobs, args.time_limit))
        print(f"{text}: {rows[-1].seconds:.0f} s of passes", file=sys.stderr, flush=True)
    show(cases, rows, console)
    if args.json is not None:
        counts = {
            case.name: {"before": count_nodes(case.model), **{row.pipeline: row.nodes[case.name] for row in rows}}
            for case in cases
        }
        await anyio.Path(args.json).write_text(json.dumps(counts, indent=1))
    return 1 if any(row.changed() for row in rows) else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    return anyio.run(run, options(arguments), Console(width=140))


if __name__ == "__main__":
    sys.exit(main())
