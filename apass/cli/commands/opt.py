"""`apass opt`: optimizes models, all of them concurrently in one event loop."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

import typer

from apass.cli.cache_location import OptionalStore, store_at
from apass.cli.compare import ComparisonDisplay, compare_pipelines, plan_comparison
from apass.cli.display import Reporter, RunDisplay
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.executor_option import ExecutorScope, executor_scope
from apass.cli.exit_status import FAILED, OUTPUT_FAILED
from apass.cli.inputs import InputError, check_writable
from apass.cli.instruments import OBSERVER_OPTIONS, ObserverOptions, RunPlan
from apass.cli.journal import file_journal
from apass.cli.optimize import optimize_files
from apass.cli.options import ManyValues, command_with, options_in_use, with_options
from apass.cli.planning import Plan, make_plan
from apass.cli.resume import resume_plan
from apass.cli.settings import ContextOptions, make_context, seconds_of
from apass.core.context import PassContext
from apass.core.portable import why_not_portable

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """The options of the results: the pipeline and the output paths."""

    pipeline: Annotated[
        str | None, typer.Option("--pipeline", "-p", help="Run these passes, such as 'A,Repeat{times=3}(B,C)'.")
    ] = None
    """The passes; None for the default pipeline of each model format."""
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help=r"Write results to DIR \[NAME.opt.onnx beside each model]."),
    ] = None
    """The directory of the results; None to write them beside the models."""
    in_place: Annotated[bool, typer.Option("--in-place", help="Replace each model by its result.")] = False
    """Whether results replace their models."""
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="PIPELINES",
            help="Run each of these pipelines, print tables of nodes, bytes, latency and outputs, and write nothing.",
        ),
        ManyValues("--compare"),
    ] = None
    """The pipelines to compare; None to write the results of one pipeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of the run: concurrency, event loop, executor, start and storage."""

    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Keep at most this many models in memory.")] = 16
    """Maximum number of models in memory."""
    backend: Annotated[str, typer.Option("--backend", help="Set the event loop: asyncio or trio.")] = "asyncio"
    """The event loop."""
    to: Annotated[
        str | None, typer.Option("--to", metavar="SUFFIX", help="Convert results to this format, such as relay.")
    ] = None
    """The suffix of the results without its dot; None for that of each model."""
    resume_from: Annotated[
        Path | None,
        typer.Option("--resume-from", metavar="FILE", help="Continue after the pass that --dump-ir wrote FILE for."),
    ] = None
    """The dump of the pass after which the pipeline continues; None to start at the model."""
    executor: Annotated[
        str | None,
        typer.Option("--executor", help="Run passes in: process, thread, interpreter, dask or dask://HOST:PORT."),
    ] = None
    """The executor of the passes; None for the event loop."""
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="Fail a model whose passes take longer; with --executor process, its process is killed.",
        ),
    ] = None
    """Seconds for the passes of one model; None for no limit."""
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="LOCATION", help="Cache results in a file, redis://HOST:PORT, or 'default'."),
    ] = None
    """The store of pass results; None for no store."""
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal", metavar="FILE", help="Record finished models in FILE, and skip them in the next run."
        ),
    ] = None
    """The file that records finished models; None for no journal."""
    verify_outputs: Annotated[
        bool, typer.Option("--verify-outputs", help="Evaluate models before and after, and compare their outputs.")
    ] = False
    """Whether results must compute the same outputs as their models."""


@app.command("opt", cls=command_with(ResultOptions, *OBSERVER_OPTIONS))
@with_options(ResultOptions, ContextOptions, RunOptions, *OBSERVER_OPTIONS)
def opt(
    *,
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Model files, directories and globs.")],
    options: tuple[ResultOptions, ContextOptions, RunOptions, *tuple[ObserverOptions, ...]],
) -> None:
    """Optimize models concurrently in one event loop, and write the results.

    Exit status: 0, 1 if a model failed (the others are written), 2 if nothing was started, 4 if only another output
    (report, trace, times, remarks) could not be written, 130 after Ctrl-C.
    """
    result_options, context_options, run_options, *observer_options = options
    with errors_as_lines():
        check_backend(run_options.backend)
        seconds_of("--timeout", run_options.timeout)
        if result_options.compare is not None:
            _check_compared(result_options, run_options, observer_options)
            _compare(models, result_options.compare, context_options, run_options)
            return
        plan = _plan(models, result_options, context_options, run_options)
        run = RunPlan(plan=plan, context=context_options, backend=run_options.backend)
        enabled = [
            (group, observer) for group in observer_options if (observer := group.create_observer(run)) is not None
        ]
        observers = [observer for _, observer in enabled]
        instruments = [(group, instrument) for group, observer in enabled for instrument in observer.instruments()]
        store = None if run_options.cache is None else OptionalStore(store_at(run_options.cache))
        context = make_context(
            context_options, plan.passes.values(), [instrument for _, instrument in instruments], store
        )
        unsupported = {
            option: reason
            for group, instrument in instruments
            for option in options_in_use(group)
            if (reason := why_not_portable(instrument)) is not None
        }
        executors = executor_scope(run_options.executor, unsupported)
        check_writable(plan.jobs, result_options.output)
        reporter = Reporter(len(plan.jobs), bar=not any(observer.takes_terminal for observer in observers))
        display = RunDisplay(reporter, observers)
        _run(plan, run_options, store, context, executors, display)
        if not display.is_complete:
            raise typer.Exit(FAILED)
        if display.failed_outputs:
            raise typer.Exit(OUTPUT_FAILED)


def _check_compared(results: ResultOptions, run: RunOptions, observers: Sequence[ObserverOptions]) -> None:
    """Raise if an option does not apply to a comparison."""
    allowed = {"--compare", "--jobs", "--backend", "--executor", "--timeout", "--cache"}
    for option in chain.from_iterable(map(options_in_use, (results, run, *observers))):
        if option not in allowed:
            raise InputError(f"{option} cannot be used with --compare, which writes nothing; leave one of them out")


def _compare(models: Sequence[str], texts: Sequence[str], options: ContextOptions, run: RunOptions) -> None:
    """Compare pipelines on each model, and print the tables."""
    jobs = plan_comparison(models, texts)
    store = None if run.cache is None else OptionalStore(store_at(run.cache))
    context = make_context(options, [pipeline for _, pipeline in jobs.pipelines], (), store)
    executors = executor_scope(run.executor, {})
    display = ComparisonDisplay([text for text, _ in jobs.pipelines], len(jobs.models))

    async def work() -> None:
        async with store or nullcontext(), context, executors as executor:
            await compare_pipelines(
                jobs, executor=executor, timeout=run.timeout, limit=run.jobs, on_result=display.result
            )

    with warnings_as_lines(), display:
        run_until_interrupted(work, run.backend)
    if not display.is_complete:
        raise typer.Exit(FAILED)


def _plan(
    models: Sequence[str], results: ResultOptions, context_options: ContextOptions, run_options: RunOptions
) -> Plan:
    """Return the plan of the run, after the pass of `--resume-from` if it is set."""
    plan = make_plan(models, results.output, results.pipeline, in_place=results.in_place, to=run_options.to)
    if run_options.resume_from is None:
        return plan
    return resume_plan(plan, run_options.resume_from, make_context(context_options, plan.passes.values()))


def _run(
    plan: Plan,
    options: RunOptions,
    store: OptionalStore | None,
    context: PassContext,
    executors: ExecutorScope,
    display: RunDisplay,
) -> None:
    """Run the plan and display it."""

    async def work() -> None:
        async with store or nullcontext(), context, executors as executor:
            await optimize_files(
                plan.jobs,
                plan.treatment_of,
                executor=executor,
                timeout=options.timeout,
                journal=journal,
                limit=options.jobs,
                verify=options.verify_outputs,
                on_phase=display.phase,
                on_result=display.result,
            )

    opened_journal = file_journal(options.journal, plan.passes, context, verify=options.verify_outputs)
    with warnings_as_lines(), opened_journal as journal, display.closing(context.diag_ctx):
        run_until_interrupted(work, options.backend)
