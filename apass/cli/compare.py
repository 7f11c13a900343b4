"""`apass opt --compare`: a table of several pipelines for each model."""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self

import anyio
from rich.console import Console

from apass.batch.execution import module_runner
from apass.batch.formats import Measures, ModelFormat, format_of, suffixes
from apass.cli.errors import failure_text
from apass.cli.inputs import Job, find_models, plan_jobs
from apass.cli.optimize import NotComparedError
from apass.cli.planning import pipeline_text, read_pipeline
from apass.cli.terminal import safe_markup, safe_name
from apass.cli.verification import Verification
from apass.core.executor import Executor
from apass.core.run import enter_module
from apass.errors import InputError, PassCancelledError
from apass.instruments.support.table_layout import Column, fitted_table, keep_ends
from apass.passes.base import Pass
from apass.util.printable import printable

__all__ = ["ComparisonDisplay", "ComparisonPlan", "ModelResult", "Row", "compare_pipelines", "plan_comparison"]

ORIGINAL: Final = "(original)"
"""The name of the row of the model as it was read."""

_UNLIMITED_WIDTH: Final = 10_000
"""Columns of a table in a pipe or a file; wide enough for any row."""


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """The models and the pipelines of a comparison."""

    models: Sequence[Job]
    """The models; their targets are not written."""
    formats: Mapping[str, ModelFormat]
    """How models are read, by file suffix."""
    pipelines: Sequence[tuple[str, Pass[Any]]]
    """The pipelines, each with its text."""


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one pipeline for one model."""

    pipeline: str
    """The text of the pipeline, or `(original)`."""
    nodes: int | None = None
    """Nodes of the result; None if the pipeline failed."""
    measures: Measures | None = None
    """Size and latency; None if the format has none."""
    outputs: str = ""
    """The result of comparing the outputs with those of the original."""
    changed: bool | None = False
    """Whether the outputs differ; None if they could not be compared."""
    error: Exception | None = None
    """The reason of a failure."""


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The results of all pipelines for one model."""

    job: Job
    """The model."""
    rows: Sequence[Row]
    """The original and a row for each pipeline; empty if the model could not be read."""
    error: Exception | None = None
    """The reason why the model could not be read or measured."""


def plan_comparison(models: Sequence[str], texts: Sequence[str]) -> ComparisonPlan:
    """Return the plan of a comparison. No model is read.

    Raises:
        InputError: if models are missing, or a pipeline is named twice.
        PipelineSyntaxError: if the text of a pipeline is empty or does not parse.
        UnknownPassError: if a pipeline names an unknown pass.
        MissingExtraError: if the library of a pass or a model format is not installed.

    """
    for index, text in enumerate(texts):
        if text in texts[:index]:
            raise InputError(f"--compare has the pipeline {text!r} twice; leave one out")
    jobs = plan_jobs(find_models(models, suffixes()), None, in_place=True)
    pipelines = [pipeline_text(text, [job.suffix for job in jobs]) for text in texts]
    formats = {job.suffix: format_of(job.source, None, ",".join(pipelines)) for job in jobs}
    return ComparisonPlan(jobs, formats, list(zip(texts, map(read_pipeline, pipelines), strict=True)))


async def compare_pipelines(
    plan: ComparisonPlan,
    *,
    executor: Executor | None,
    timeout: float | None,
    limit: int,
    verification: Verification,
    on_result: Callable[[ModelResult], None],
) -> None:
    """Run each pipeline on each model, at most `limit` models at a time.

    A pipeline that fails does not affect the others. `on_result` is called at the end of each model.
    """
    slots = anyio.CapacityLimiter(limit)
    workers = anyio.CapacityLimiter(os.cpu_count() or 1)

    async def run(job: Job) -> None:
        try:
            work = _ModelRun(job, plan, workers, executor, timeout, verification)
            result = await work.result()
        finally:
            slots.release_on_behalf_of(job)
        on_result(result)

    async with anyio.create_task_group() as group:
        for job in plan.models:
            # Acquired before the task is started, so that waiting models do not need a task each.
            await slots.acquire_on_behalf_of(job)
            group.start_soon(run, job)


class _ModelRun:
    """The comparison of one model, done in one task."""

    def __init__(
        self,
        job: Job,
        plan: ComparisonPlan,
        workers: anyio.CapacityLimiter,
        executor: Executor | None,
        timeout: float | None,
        verification: Verification,
    ) -> None:
        self.verification = verification
        self.job = job
        self.plan = plan
        self.format = plan.formats[job.suffix]
        self.workers = workers
        self.executor = executor
        self.timeout = timeout
        self.original: Any = None
        """The model that was loaded."""

    async def result(self) -> ModelResult:
        """Return the rows of the model, or the error that prevents them."""
        enter_module(self.job.name)
        try:
            self.original = await self._load()
        except Exception as error:
            return ModelResult(self.job, (), error)
        rows: list[Row] = [Row(ORIGINAL, self.format.size(self.original))]
        results: list[Any] = []
        # One after the other: the results are compared with each other, not with other work.
        for text, pipeline in self.plan.pipelines:
            row, result = await self._row(text, pipeline)
            rows.append(row)
            results.append(result)
        try:
            return ModelResult(self.job, await self._measured(rows, [self.original, *results]))
        except Exception as error:
            return ModelResult(self.job, rows, error)

    async def _load(self) -> Any:
        return await anyio.to_thread.run_sync(self.format.load, self.job.source)

    async def _row(self, text: str, pipeline: Pass[Any]) -> tuple[Row, Any]:
        """Return the row of a pipeline without measures, and its result or None."""
        try:
            loaded = self.format.fingerprint(self.original)
            result = await module_runner(pipeline, self.executor, self.timeout)(self.original)
            if self.format.fingerprint(self.original) != loaded:
                # A pass has changed its input in place. Only the file has the original.
                self.original = await self._load()
            elif result is self.original:
                return Row(text, self.format.size(result), None, "unchanged"), result
            comparison = await self.format.compare_outputs(
                self.original, result, self.workers, self.verification.inputs
            )
        except Exception as error:
            return Row(text, error=error), None
        except anyio.get_cancelled_exc_class() as cancellation:
            # As in `optimize_files`: a deadline of -inf means that this task itself is cancelled.
            if anyio.current_effective_deadline() == -math.inf:
                raise
            failure = PassCancelledError("the pass awaited something that was cancelled outside the run")
            failure.__cause__ = cancellation
            return Row(text, error=failure), None
        if comparison.changed is None and self.verification.is_required:
            return Row(text, error=NotComparedError(comparison.text)), None
        row = Row(text, self.format.size(result), None, comparison.text.removeprefix("outputs "), comparison.changed)
        return row, result

    async def _measured(self, rows: Sequence[Row], results: Sequence[Any]) -> list[Row]:
        """Return the rows with the measures of their results."""
        # The same object is measured once: two measurements of it would differ.
        unique = {id(result): result for result in results if result is not None}
        measures = dict(zip(unique, await self.format.measure(list(unique.values())), strict=True))
        return [replace(row, measures=measures.get(id(result))) for row, result in zip(rows, results, strict=True)]


class ComparisonDisplay:
    """Prints the table of each model when it is finished, and the totals at the end."""

    def __init__(self, pipelines: Sequence[str], total: int) -> None:
        self.results: list[ModelResult] = []
        """The results of the models, in the order of completion."""
        self._pipelines = pipelines
        self._total = total
        self._out = Console(highlight=False)
        if not (self._out.is_terminal or "COLUMNS" in os.environ):
            # In a pipe or a file, each row is one line, so that `grep` and `cut` work.
            self._out = Console(highlight=False, width=_UNLIMITED_WIDTH)

    @property
    def is_complete(self) -> bool:
        """Whether every pipeline succeeded on every model and kept its outputs."""
        rows = [row for result in self.results for row in result.rows]
        is_failed = any(result.error for result in self.results) or any(row.error or row.changed for row in rows)
        return len(self.results) == self._total and not is_failed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.results:
            self._out.print(f"[bold]all {len(self.results)} models[/]")
            self._print_table(self._pipelines_column([ORIGINAL, *self._pipelines]), self._totals())
        missing = self._total - len(self.results)
        text = f"{len(self.results)} of {self._total} models compared, no result written"
        self._out.print(text + (f", {missing} not done" if missing else ""), soft_wrap=True)

    def result(self, result: ModelResult) -> None:
        """Print the table of a model, and its errors."""
        self.results.append(result)
        self._out.print(f"[bold]{safe_name(result.job.name)}[/]", soft_wrap=True)
        if result.rows:
            rows = result.rows
            columns = [
                Column(title="nodes", cells=[_number(row.nodes) for row in rows], justify="right"),
                Column(title="bytes", cells=[_number(_size(row)) for row in rows], justify="right"),
                Column(title="latency", cells=[_milliseconds(row.measures) for row in rows], justify="right"),
                Column(
                    title="outputs",
                    cells=[_outcome(row) for row in rows],
                    smallest=max(len(_outcome(row).partition(":")[0]) for row in rows),
                    style=lambda index: _style(rows[index]),
                ),
            ]
            self._print_table(self._pipelines_column([row.pipeline for row in rows]), columns)
        for row in result.rows:
            if row.error is not None:
                self._print_error(row.pipeline, row.error)
        if result.error is not None:
            self._print_error("the model", result.error)
        for reason in dict.fromkeys(row.measures.reason for row in result.rows if row.measures is not None):
            if reason:
                self._out.print(f"[dim]no latency: {safe_markup(reason)}[/]", soft_wrap=True)

    def _totals(self) -> list[Column]:
        """Return the columns of the sums over all models that could be read."""
        by_pipeline = [
            [(result.rows[0], result.rows[index]) for result in self.results if result.rows]
            for index in range(len(self._pipelines) + 1)
        ]
        return [
            Column(title="nodes", cells=[_sum(pairs, lambda row: row.nodes) for pairs in by_pipeline], justify="right"),
            Column(title="bytes", cells=[_sum(pairs, _size) for pairs in by_pipeline], justify="right"),
            Column(title="latency", cells=[_mean_ratio(pairs) for pairs in by_pipeline], justify="right"),
            Column(title="outputs", cells=["", *(_counts(pairs) for pairs in by_pipeline[1:])]),
        ]

    def _pipelines_column(self, names: Sequence[str]) -> Column:
        return Column(title="pipeline", cells=[printable(name) for name in names], shorten=keep_ends)

    def _print_table(self, names: Column, columns: Sequence[Column]) -> None:
        drop = ("bytes", "nodes", "latency", "outputs")
        self._out.print(fitted_table(names, columns, self._out.width, drop=drop))

    def _print_error(self, name: str, error: Exception) -> None:
        self._out.print(failure_text(name, error), soft_wrap=True)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _milliseconds(measures: Measures | None) -> str:
    return "" if measures is None or measures.latency is None else f"{measures.latency * 1e3:.3f} ms"


def _style(row: Row) -> str:
    if row.error is not None or row.changed:
        return "red"
    return "yellow" if row.changed is None else "green"


def _outcome(row: Row) -> str:
    return printable(row.outputs) if row.error is None else f"failed: {type(row.error).__name__}"


def _size(row: Row) -> int | None:
    return None if row.measures is None else row.measures.bytes


def _sum(pairs: Sequence[tuple[Row, Row]], value: Callable[[Row], int | None]) -> str:
    """Return the sum over all models. A failed pipeline leaves the original."""
    values = [value(original if row.error is not None else row) for original, row in pairs]
    return _number(None if not values or None in values else sum(filter(None, values)))


def _mean_ratio(pairs: Sequence[tuple[Row, Row]]) -> str:
    """Return the geometric mean of the latencies relative to the originals."""
    ratios = [
        row.measures.latency / original.measures.latency
        for original, row in pairs
        if row.measures is not None and original.measures is not None
        if row.measures.latency and original.measures.latency
    ]
    return f"x {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}" if ratios else ""


def _counts(pairs: Sequence[tuple[Row, Row]]) -> str:
    rows = [row for _, row in pairs]
    failed = sum(row.error is not None for row in rows)
    states = Counter(row.changed for row in rows if row.error is None)
    counts = {"equal": states[False], "changed": states[True], "not verified": states[None], "failed": failed}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
