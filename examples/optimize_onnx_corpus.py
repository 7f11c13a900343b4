"""Optimize the ONNX test corpus in one event loop, and compare outputs.

    pip install "apass[cli,onnx]"
    python examples/optimize_onnx_corpus.py                # a part, within a minute
    python examples/optimize_onnx_corpus.py --full --backend trio --opt-level 2

The corpus has about two thousand models and comes with the onnx package: the cases of its test generator, and the
models in its test data, among them ResNet-50, DenseNet-121, Inception and VGG-19. Each model is optimized by
`onnx.Default`. Finished models are evaluated in worker processes, before and after, while others are being optimized.
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
from apass.adapters.onnx import ADAPTER, count_nodes, load_model
from apass.adapters.onnx.outputs import Status, Verdict, compare_outputs

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
HEAVY = "light"
"""Folder of the nine big networks: small on disk, as they come without weights, and slow to evaluate."""

PART = 400
"""Number of models without `--full` and `--part`."""

LIGHTEST_OF_HEAVY = f"{HEAVY}/light_squeezenet"
"""The only big network in a part of the corpus."""

RTOL = 1e-3
"""Relative tolerance of outputs for models in files; onnx uses the same."""


@dataclass(frozen=True, slots=True)
class Case:
    """One model of the corpus."""

    name: str
    source: str
    """Part of the corpus that contains it."""
    model: ir.Model
    data: Sequence[tuple[Sequence[Any] | None, Sequence[Any] | None]]
    """Pairs of inputs and expected outputs; None for random inputs and unknown outputs."""
    rtol: float = RTOL


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome and evaluation of one model."""

    case: Case
    outcome: apass.batch.Outcome[ir.Model]
    verdict: Verdict | None
    """None if a pass failed."""
    is_intact: bool = True
    """Whether the input model is still the same."""

    @property
    def nodes_removed(self) -> int:
        """Number of nodes that the pipeline removed."""
        model = self.outcome.module
        return 0 if model is None else count_nodes(self.case.model) - count_nodes(model)


@dataclass(slots=True)
class Report:
    """The results of all models."""

    results: list[Result] = field(default_factory=list[Result])
    seconds: float = 0.0

    def failed(self) -> list[Result]:
        """Return the results of models on which a pass failed."""
        return [result for result in self.results if result.verdict is None]

    def changed(self) -> list[Result]:
        """Return the results of models whose outputs changed."""
        return [result for result in self.results if result.verdict is not None and result.verdict.changed]

    def mutated(self) -> list[Result]:
        """Return the results of models that a pass changed in place."""
        return [result for result in self.results if not result.is_intact]

    def exit_status(self) -> int:
        """Return 1 if outputs changed, a pass failed, or an input changed; else 0."""
        return 1 if self.changed() or self.failed() or self.mutated() else 0

    def with_status(self, *statuses: Status) -> list[Result]:
        """Return the results whose evaluation has one of the statuses."""
        return [result for result in self.results if result.verdict is not None and result.verdict.status in statuses]


@dataclass(frozen=True, slots=True)
class Source:
    """A case of the corpus before it is loaded."""

    name: str
    """The name of the case."""
    load: Callable[[], Case]
    """Returns the loaded case."""


def node_cases() -> Iterator[Source]:
    """Iterate over the cases of the onnx test generator, for every operator."""
    with warnings.catch_warnings():
        # The generator computes infinities and overflowing casts, for which numpy warns.
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        yield Source(case.name, partial(load_node_case, case))


def load_node_case(generated: TestCase) -> Case:
    """Return a case of the test generator."""
    assert generated.model is not None
    data = [(list(map(plain, inputs)), list(map(plain, outputs))) for inputs, outputs in generated.data_sets or ()]
    return Case(generated.name, "node", ir.from_proto(generated.model), data, generated.rtol)


def plain(value: Any) -> Any:
    """Return a value of a case as an array or a nested list of arrays."""
    if isinstance(value, onnx.TensorProto):
        return to_array(value)
    return [plain(item) for item in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def file_cases() -> Iterator[Source]:
    """Iterate over the models in the test data of onnx."""
    for path in sorted(DATA.glob("*/*/model.onnx")):
        yield Source(f"{path.parent.parent.name}/{path.parent.name}", partial(load_file_case, path))
    for path in sorted((DATA / HEAVY).glob("*.onnx")):
        yield Source(f"{HEAVY}/{path.stem}", partial(load_heavy_case, path))


def load_file_case(path: Path) -> Case:
    """Return a model with the data in its folder."""
    model = load_model(path)
    data = [
        (read_values(folder, "input", model.graph.inputs), read_values(folder, "output", model.graph.outputs))
        for folder in sorted(path.parent.glob("test_data_set_*"))
    ]
    return Case(f"{path.parent.parent.name}/{path.parent.name}", path.parent.parent.name, model, data)


def load_heavy_case(path: Path) -> Case:
    """Return a network with random weights, and inputs to be drawn.

    The expected outputs of onnx are not used. Its weights are constant, and so are the outputs, which would not show
    whether weights are interchanged.
    """
    return Case(f"{HEAVY}/{path.stem}", HEAVY, with_drawn_weights(load_model(path)), [(None, None)])


def read_values(folder: Path, kind: str, values: Sequence[ir.Value]) -> list[Any]:
    """Return the arrays, sequences or optionals in `KIND_0.pb`, `KIND_1.pb`, ..."""
    arrays: list[Any] = []
    for index, value in enumerate(values):
        path = folder / f"{kind}_{index}.pb"
        if not path.exists():
            break
        data = path.read_bytes()
        if isinstance(value.type, ir.SequenceType):
            arrays.append(to_list(onnx.SequenceProto.FromString(data)))
        elif isinstance(value.type, ir.OptionalType):
            arrays.append(to_optional(onnx.OptionalProto.FromString(data)))
        else:
            arrays.append(to_array(onnx.TensorProto.FromString(data)))
    return arrays


def with_drawn_weights(model: ir.Model) -> ir.Model:
    """Replace the constant weights of a light model by random ones with fixed seeds."""
    for seed, node in enumerate(node for node in list(model.graph) if node.op_type == "ConstantOfShape"):
        shape_input = node.inputs[0]
        assert shape_input is not None
        assert shape_input.const_value is not None
        shape = [int(size) for size in shape_input.const_value.numpy()]
        # With this spread, activations neither vanish nor explode. Vectors are scales and variances: positive.
        spread = float(np.sqrt(6 / np.prod(shape[1:])))
        low, high = (-spread, spread) if len(shape) > 1 else (0.5, 1.5)
        attributes: dict[str, Any] = {"shape": shape, "low": low, "high": high, "seed": float(seed)}
        random_node = ir.node("RandomUniform", [], attributes, name=node.name)
        random_node.outputs[0].type, random_node.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
        ir.convenience.replace_nodes_and_values(
            model.graph, node, [node], [random_node], node.outputs, random_node.outputs
        )
    return model


def load_cases(part: int | None) -> list[Case]:
    """Return about `part` evenly spread cases with one big network, or all if None."""
    sources = [*node_cases(), *file_cases()]
    if part is not None:
        cheap = [source for source in sources if not source.name.startswith(f"{HEAVY}/")]
        step = max(1, len(cheap) // part)
        sources = [*cheap[::step][:part], *(source for source in sources if source.name == LIGHTEST_OF_HEAVY)]
    return [source.load() for source in sources]


async def optimize_corpus(
    cases: Sequence[Case], pipeline: apass.Pass[ir.Model], jobs: int, time_limit: float, opt_level: int = 3
) -> Report:
    """Optimize all models concurrently; evaluate each, before and after."""
    report = Report()
    fingerprints = [ADAPTER.fingerprint(case.model) for case in cases]
    start = perf_counter()
    limiter = anyio.CapacityLimiter(jobs)

    async def evaluate_outcome(index: int, outcome: apass.batch.Outcome[ir.Model]) -> None:
        case = cases[index]
        verdict = None if outcome.module is None else await verdict_on(case, outcome.module, limiter, time_limit)
        is_intact = ADAPTER.fingerprint(case.model) == fingerprints[index]
        report.results.append(Result(case, outcome, verdict, is_intact))

    async with apass.PassContext(opt_level=opt_level), anyio.create_task_group() as evaluations:
        models = {index: case.model for index, case in enumerate(cases)}
        async with apass.optimize_stream(models, pipeline) as outcomes:
            async for outcome in outcomes:
                evaluations.start_soon(partial(evaluate_outcome, outcome.name, outcome))
    report.seconds = perf_counter() - start
    return report


async def verdict_on(case: Case, optimized: ir.Model, limiter: anyio.CapacityLimiter, time_limit: float) -> Verdict:
    """Return the verdict of the first data set with unequal outputs, or of the last."""
    verdict = Verdict(Status.NEITHER, "the case has no data")
    for inputs, outputs in case.data:
        verdict = await compare_outputs(
            case.model, optimized, inputs, expected=outputs, rtol=case.rtol, time_limit=time_limit, limiter=limiter
        )
        if verdict.status is not Status.EQUAL:
            return verdict
    return verdict


ROWS: dict[str, Callable[[Report], int]] = {
    "models": lambda report: len(report.results),
    "models rewritten": lambda report: sum(
        result.outcome.module not in (None, result.case.model) for result in report.results
    ),
    "nodes before": lambda report: sum(count_nodes(result.case.model) for result in report.results),
    "nodes removed": lambda report: sum(result.nodes_removed for result in report.results),
    "nodes after": lambda report: sum(
        count_nodes(result.case.model) - result.nodes_removed for result in report.results
    ),
    "outputs equal": lambda report: len(report.with_status(Status.EQUAL)),
    "  of these, not bit by bit": lambda report: sum(
        result.verdict is not None and bool(result.verdict.difference) for result in report.with_status(Status.EQUAL)
    ),
    "equal, reference is wrong": lambda report: len(report.with_status(Status.WRONG_ALIKE)),
    "outputs random": lambda report: len(report.with_status(Status.RANDOM)),
    "reference cannot run it": lambda report: len(report.with_status(Status.NEITHER, Status.ONLY_AFTER)),
    "a pass failed": lambda report: len(report.failed()),
    "input model changed": lambda report: len(report.mutated()),
    "outputs changed": lambda report: len(report.changed()),
}
"""Label and number of each row of the table."""


def table_of(report: Report) -> Table:
    """Return the table of results, with a column for each part of the corpus."""
    title = f"{len(report.results)} models in one event loop, {report.seconds:.1f} s"
    table = Table(title=title, box=SIMPLE, pad_edge=False)
    names = sorted({result.case.source for result in report.results})
    parts = [Report([result for result in report.results if result.case.source == name]) for name in names]
    table.add_column(no_wrap=True)
    for column in (*names, "all"):
        table.add_column(column.replace("-", "-\n"), justify="right")
    for label, number in ROWS.items():
        table.add_row(label, *(str(number(part)) for part in [*parts, report]))
    return table


def show(report: Report, console: Console) -> None:
    """Print the table, the reasons of missing evaluations, and the failures."""
    console.print(table_of(report))
    print_reasons(report, console)
    for result in sorted(report.failed(), key=lambda result: result.case.name):
        error = result.outcome.error
        notes = "; ".join(getattr(error, "__notes__", ()))
        console.print(
            f"failed: {result.case.name}: {type(error).__name__}: {error} ({notes})", style="red", markup=False
        )
    for result in sorted(report.changed(), key=lambda result: result.case.name):
        assert result.verdict is not None
        text = f"changed: {result.case.name}: {result.verdict.status.value}: {result.verdict.reason}"
        console.print(text, style="red", markup=False)
    if not report.changed():
        console.print("0 models with changed outputs", style="green")


def print_reasons(report: Report, console: Console) -> None:
    """Print why models were not evaluated or not equal, most frequent reasons first."""
    results = report.with_status(Status.NEITHER, Status.ONLY_AFTER, Status.WRONG_ALIKE, Status.RANDOM)
    reasons: Counter[str] = Counter()
    for result in results:
        assert result.verdict is not None
        reasons[f"{result.verdict.status.value}: {result.verdict.reason.partition(' (')[0][:90]}"] += 1
    for reason, count in reasons.most_common(12):
        console.print(f"{count:5} {reason}", style="dim", markup=False)


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Optimize the ONNX test corpus in one event loop.")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="all models with the nine big networks (minutes)")
    size.add_argument("--part", type=int, default=PART, metavar="N", help=f"about N models (default {PART})")
    parser.add_argument("--opt-level", type=int, choices=range(4), default=3, help="the level (default 3)")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio", help="the event loop")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2, metavar="N", help="worker processes")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S", help="seconds for one evaluation")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example.

    Return 1 if outputs changed or a pass failed, 130 after Ctrl-C, else 0.
    """
    args = options(arguments)
    console = Console()
    report: Report | None = None
    try:
        cases = load_cases(None if args.full else max(1, args.part))
        pipeline = apass.get_pass("onnx.Default")
        report = anyio.run(
            optimize_corpus, cases, pipeline, args.jobs, args.time_limit, args.opt_level, backend=args.backend
        )
    except* KeyboardInterrupt:
        print("optimize_onnx_corpus.py: interrupted", file=sys.stderr)
    if report is None:
        return 130
    show(report, console)
    return report.exit_status()


if __name__ == "__main__":
    sys.exit(main())
