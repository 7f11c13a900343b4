"""Optimize the test corpus of ONNX, some two thousand models, in one event loop, and prove that no meaning changed.

    python examples/optimize_onnx_corpus.py                # a part, within a minute
    python examples/optimize_onnx_corpus.py --full --backend trio

The corpus is what the onnx package brings: the cases that its test generator builds, and the models in its test data,
among them ResNet-50, DenseNet-121, Inception and VGG-19. Each model is optimized by `onnx.Default`; those that are done
are evaluated in worker processes, before and after, while others are still at work.
"""

import argparse
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import anyio
import numpy as np
import onnx
import onnx_ir as ir
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase
from onnx.numpy_helper import to_array, to_list, to_optional
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

import apass
from apass.adapters.onnx import load_model
from apass.adapters.onnx.outputs import Status, Verdict, compare_outputs

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
HEAVY = "light"
"""The folder of the nine big networks: light on the disk, for they come without weights, and heavy to evaluate."""

PART = 400
"""How many models are optimized unless `--full` or `--part` is given."""

LIGHTEST_OF_HEAVY = f"{HEAVY}/light_squeezenet"
"""The only big network among them."""

RTOL = 1e-3
"""How near to the expected outputs the data of the models in files has to be; that is onnx's own tolerance."""


@dataclass(frozen=True, slots=True)
class Case:
    """One model of the corpus."""

    name: str
    source: str
    """Where in the corpus it comes from."""
    model: ir.Model
    data: Sequence[tuple[Sequence[Any] | None, Sequence[Any] | None]]
    """Inputs with the outputs that are right; None for inputs drawn at random and outputs unknown."""
    rtol: float = RTOL


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one model."""

    case: Case
    outcome: apass.Outcome[ir.Model]
    verdict: Verdict | None
    """None if a pass failed."""

    @property
    def nodes_removed(self) -> int:
        """How many nodes fewer the model has."""
        made = self.outcome.module
        return 0 if made is None else count_nodes(self.case.model) - count_nodes(made)


@dataclass(slots=True)
class Report:
    """The results of all models."""

    results: list[Result] = field(default_factory=list[Result])
    seconds: float = 0.0

    def failed(self) -> list[Result]:
        """Return those on which a pass failed."""
        return [one for one in self.results if one.verdict is None]

    def changed(self) -> list[Result]:
        """Return those that mean something else than before."""
        return [one for one in self.results if one.verdict is not None and one.verdict.changed]

    def exit_status(self) -> int:
        """Return 1 if a meaning changed or a pass failed, else 0."""
        return 1 if self.changed() or self.failed() else 0

    def with_status(self, *statuses: Status) -> list[Result]:
        """Return those whose evaluation came out so."""
        return [one for one in self.results if one.verdict is not None and one.verdict.status in statuses]


def count_nodes(model: ir.Model) -> int:
    """Return how many nodes a model has, in subgraphs and functions too."""
    owners = [model.graph, *(function.graph for function in model.functions.values())]
    return sum(1 for owner in owners for _ in owner.all_nodes())


@dataclass(frozen=True, slots=True)
class Source:
    """A case of the corpus that is not loaded yet."""

    name: str
    """The name of the case."""
    load: Callable[[], Case]
    """Loads it."""


def node_cases() -> Iterator[Source]:
    """Go over the cases that the test generator of onnx builds, one or more for every operator."""
    with warnings.catch_warnings():
        # The cases are made with numpy on the edge of its domain: infinities, and casts that overflow.
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        yield Source(case.name, partial(load_node_case, case))


def load_node_case(given: TestCase) -> Case:
    """Return a case that the test generator built."""
    assert given.model is not None
    data = [(list(map(plain, inputs)), list(map(plain, right))) for inputs, right in given.data_sets or ()]
    return Case(given.name, "node", ir.from_proto(given.model), data, given.rtol)


def plain(value: Any) -> Any:
    """Return a value of a case as arrays and lists of them."""
    if isinstance(value, onnx.TensorProto):
        return to_array(value)
    return [plain(one) for one in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def file_cases() -> Iterator[Source]:
    """Go over the models in the test data of onnx."""
    for path in sorted(DATA.glob("*/*/model.onnx")):
        yield Source(f"{path.parent.parent.name}/{path.parent.name}", partial(load_file_case, path))
    for path in sorted((DATA / HEAVY).glob("*.onnx")):
        yield Source(f"{HEAVY}/{path.stem}", partial(load_heavy_case, path))


def load_file_case(path: Path) -> Case:
    """Return a model with the data that lies next to it."""
    model = load_model(path)
    data = [
        (read_values(folder, "input", model.graph.inputs), read_values(folder, "output", model.graph.outputs))
        for folder in sorted(path.parent.glob("test_data_set_*"))
    ]
    return Case(f"{path.parent.parent.name}/{path.parent.name}", path.parent.parent.name, model, data)


def load_heavy_case(path: Path) -> Case:
    """Return a network with drawn weights, and inputs to be drawn.

    Its expected outputs are left aside: they are constant, as its weights are, and would be the same if weights were
    mixed up.
    """
    return Case(f"{HEAVY}/{path.stem}", HEAVY, with_drawn_weights(load_model(path)), [(None, None)])


def read_values(folder: Path, kind: str, values: Sequence[ir.Value]) -> list[Any]:
    """Return the arrays, sequences or optionals in the files `KIND_0.pb`, `KIND_1.pb` and so on."""
    found: list[Any] = []
    for index, value in enumerate(values):
        path = folder / f"{kind}_{index}.pb"
        if not path.exists():
            break
        data = path.read_bytes()
        if isinstance(value.type, ir.SequenceType):
            found.append(to_list(onnx.SequenceProto.FromString(data)))
        elif isinstance(value.type, ir.OptionalType):
            found.append(to_optional(onnx.OptionalProto.FromString(data)))
        else:
            found.append(to_array(onnx.TensorProto.FromString(data)))
    return found


def with_drawn_weights(model: ir.Model) -> ir.Model:
    """Put weights drawn at random, the same ones every time, in the places of the constant ones of a light model."""
    for seed, node in enumerate(node for node in list(model.graph) if node.op_type == "ConstantOfShape"):
        given = node.inputs[0]
        assert given is not None
        assert given.const_value is not None
        shape = [int(size) for size in given.const_value.numpy()]
        # Of this spread, activations neither vanish nor explode; vectors are scales and variances, and so positive.
        spread = float(np.sqrt(6 / np.prod(shape[1:])))
        low, high = (-spread, spread) if len(shape) > 1 else (0.5, 1.5)
        attributes: dict[str, Any] = {"shape": shape, "low": low, "high": high, "seed": float(seed)}
        drawn = ir.node("RandomUniform", [], attributes, name=node.name)
        drawn.outputs[0].type, drawn.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
        ir.convenience.replace_nodes_and_values(model.graph, node, [node], [drawn], node.outputs, drawn.outputs)
    return model


def load_cases(part: int | None) -> list[Case]:
    """Return about `part` of the cases, evenly spread and but one of the heavy ones; all of them if it is None."""
    sources = [*node_cases(), *file_cases()]
    if part is not None:
        cheap = [one for one in sources if not one.name.startswith(f"{HEAVY}/")]
        step = max(1, len(cheap) // part)
        sources = [*cheap[::step][:part], *(one for one in sources if one.name == LIGHTEST_OF_HEAVY)]
    return [one.load() for one in sources]


async def optimize_corpus(
    cases: Sequence[Case], pipeline: apass.Pass[ir.Model], jobs: int, time_limit: float
) -> Report:
    """Optimize all models at once; evaluate each, before and after, when it is done."""
    report = Report()
    start = perf_counter()
    limiter = anyio.CapacityLimiter(jobs)

    async def judge(case: Case, outcome: apass.Outcome[ir.Model]) -> None:
        verdict = None if outcome.module is None else await verdict_on(case, outcome.module, limiter, time_limit)
        report.results.append(Result(case, outcome, verdict))

    async with apass.PassContext(opt_level=3), anyio.create_task_group() as judging:
        models = {index: case.model for index, case in enumerate(cases)}
        async with apass.optimize_stream(models, pipeline) as outcomes:
            async for outcome in outcomes:
                judging.start_soon(partial(judge, cases[outcome.name], outcome))
    report.seconds = perf_counter() - start
    return report


async def verdict_on(case: Case, made: ir.Model, limiter: anyio.CapacityLimiter, time_limit: float) -> Verdict:
    """Return what came of evaluating a model on all its data: of the first set where it came out badly, if any."""
    verdict = Verdict(Status.NEITHER, "the case has no data")
    for inputs, right in case.data:
        verdict = await compare_outputs(
            case.model, made, inputs, expected=right, rtol=case.rtol, time_limit=time_limit, limiter=limiter
        )
        if verdict.status is not Status.EQUAL:
            return verdict
    return verdict


ROWS: dict[str, Callable[[Report], int]] = {
    "models": lambda report: len(report.results),
    "models rewritten": lambda report: sum(one.outcome.module not in (None, one.case.model) for one in report.results),
    "nodes before": lambda report: sum(count_nodes(one.case.model) for one in report.results),
    "nodes removed": lambda report: sum(one.nodes_removed for one in report.results),
    "outputs equal": lambda report: len(report.with_status(Status.EQUAL)),
    "  of these, not bit by bit": lambda report: sum(
        one.verdict is not None and bool(one.verdict.difference) for one in report.with_status(Status.EQUAL)
    ),
    "equal, reference is wrong": lambda report: len(report.with_status(Status.WRONG_ALIKE)),
    "outputs random": lambda report: len(report.with_status(Status.RANDOM)),
    "reference cannot run it": lambda report: len(report.with_status(Status.NEITHER, Status.ONLY_AFTER)),
    "a pass failed": lambda report: len(report.failed()),
    "meaning changed": lambda report: len(report.changed()),
}
"""What the table says of the models, line by line."""


def table_of(report: Report) -> Table:
    """Return the table of what came of the models, with a column for each part of the corpus."""
    title = f"{len(report.results)} models in one event loop, {report.seconds:.1f} s"
    table = Table(title=title, box=SIMPLE, pad_edge=False)
    names = sorted({one.case.source for one in report.results})
    parts = [Report([one for one in report.results if one.case.source == name]) for name in names]
    table.add_column(no_wrap=True)
    for column in (*names, "all"):
        table.add_column(column.replace("-", "-\n"), justify="right")
    for label, number in ROWS.items():
        table.add_row(label, *(str(number(part)) for part in [*parts, report]))
    return table


def show(report: Report, console: Console) -> None:
    """Print the table, why models could not be evaluated, and all that went wrong."""
    console.print(table_of(report))
    print_reasons(report, console)
    for one in sorted(report.failed(), key=lambda one: one.case.name):
        error = one.outcome.error
        notes = "; ".join(getattr(error, "__notes__", ()))
        console.print(f"failed: {one.case.name}: {type(error).__name__}: {error} ({notes})", style="red", markup=False)
    for one in sorted(report.changed(), key=lambda one: one.case.name):
        assert one.verdict is not None
        text = f"changed: {one.case.name}: {one.verdict.status.value}: {one.verdict.reason}"
        console.print(text, style="red", markup=False)
    if not report.changed():
        console.print("0 changed meanings", style="green")


def print_reasons(report: Report, console: Console) -> None:
    """Print why models were not evaluated, or wrong, the most frequent reasons first."""
    results = report.with_status(Status.NEITHER, Status.ONLY_AFTER, Status.WRONG_ALIKE, Status.RANDOM)
    reasons: Counter[str] = Counter()
    for one in results:
        assert one.verdict is not None
        reasons[f"{one.verdict.status.value}: {one.verdict.reason.partition(' (')[0][:90]}"] += 1
    for reason, count in reasons.most_common(12):
        console.print(f"{count:5} {reason}", style="dim", markup=False)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Optimize the ONNX test corpus in one event loop.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="all models, the nine big networks too: minutes")
    size.add_argument("--part", type=int, default=PART, metavar="N", help=f"about N models (default {PART})")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio", help="the event loop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="N", help="worker processes")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S", help="seconds for one evaluation")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example; return 1 if a meaning changed or a pass failed, else 0."""
    given = options(arguments)
    console = Console()
    cases = load_cases(None if given.full else max(1, given.part))
    pipeline = apass.get_pass("onnx.Default")
    report = anyio.run(optimize_corpus, cases, pipeline, given.jobs, given.time_limit, backend=given.backend)
    show(report, console)
    return report.exit_status()


if __name__ == "__main__":
    sys.exit(main())
