"""`apass opt`: optimize models, all of them concurrently in one event loop."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.cache_location import CacheStore, store_at
from apass.cli.display import Reporter
from apass.cli.errors import FAILED, complaints, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.executor_option import ExecutorScope, executor_scope
from apass.cli.inputs import check_places
from apass.cli.instruments import WATCHES, Run, WatchOptions
from apass.cli.journal import file_journal
from apass.cli.optimize import optimize_files
from apass.cli.options import given_options, with_options
from apass.cli.planning import Plan, make_plan
from apass.cli.resume import resume_plan
from apass.cli.settings import ContextOptions, make_context
from apass.cli.showing import Showing
from apass.core.context import PassContext

__all__ = ["opt"]


class Format(Enum):
    """What a result can be written as."""

    RELAY = "relay"
    """Relay's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOptions:
    """What the command line says of the results: what is done to the models, and where they go then."""

    pipeline: Annotated[
        str | None, typer.Option("--pipeline", "-p", help="Passes to run, such as 'A,Repeat{times=3}(B,C)'.")
    ] = None
    """The passes; None for those of each kind of model."""
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help=r"Where results go \[beside: NAME.opt.onnx].")
    ] = None
    """The directory for results; None for beside the models."""
    in_place: Annotated[bool, typer.Option("--in-place", help="Write each result over its model.")] = False
    """Whether results take the places of their models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says of the run: where and how it is made, where it begins, and what is kept of it."""

    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Models in memory at once.")] = 16
    """How many models are in memory at once."""
    backend: Annotated[str, typer.Option("--backend", help="Event loop: asyncio or trio.")] = "asyncio"
    """The event loop."""
    to: Annotated[
        Format | None, typer.Option("--to", help="Write results in this format instead of the model's own.")
    ] = None
    """The format of the results; None for that of the models."""
    resume_from: Annotated[
        Path | None,
        typer.Option("--resume-from", metavar="FILE", help="Go on after the pass that --dump-ir wrote FILE for."),
    ] = None
    """The dump of the pass after which it begins; None for the beginning."""
    executor: Annotated[
        str | None,
        typer.Option("--executor", help=r"Where passes run: process, thread, interpreter, dask or dask://HOST:PORT."),
    ] = None
    """Where passes run; None for the event loop."""
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="PLACE", help="Keep results in a file, at redis://HOST:PORT, or 'default'."),
    ] = None
    """Where results of passes are kept, if anywhere."""
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal", metavar="FILE", help="Keep in FILE what is finished, and go on from there next time."
        ),
    ] = None
    """Where it is noted what is finished, if anywhere."""
    verify_outputs: Annotated[
        bool, typer.Option("--verify-outputs", help="Run models before and after on the same inputs and compare.")
    ] = False
    """Whether results must compute what their models do."""


@with_options(ResultOptions, ContextOptions, RunOptions, *WATCHES)
def opt(
    *,
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Files, directories and globs.")],
    options: tuple[ResultOptions, ContextOptions, RunOptions, *tuple[WatchOptions, ...]],
) -> None:
    """Optimize models, all of them concurrently in one event loop, and write the results.

    Exit status: 0, or 1 if a model failed (the others are written), 2 if nothing was begun, 130 after Ctrl-C.
    """
    results, settings, running, *watching = options
    with complaints():
        check_backend(running.backend)
        plan = _plan(models, results, settings, running)
        run = Run(plan=plan, context=settings, backend=running.backend, executor=running.executor)
        asked = [(one, watch) for one in watching if (watch := one.watch(run)) is not None]
        watches = [watch for _, watch in asked]
        looking = [(one, instrument) for one, watch in asked for instrument in watch.instruments()]
        instruments = [instrument for _, instrument in looking]
        store = None if running.cache is None else store_at(running.cache)
        context = make_context(settings, plan.passes.values(), instruments, store)
        blind = dict.fromkeys(option for one, _ in looking for option in given_options(one))
        executors = executor_scope(running.executor, list(blind))
        check_places(plan.jobs, results.output)
        show = Showing(Reporter(len(plan.jobs), bar=not any(one.takes_terminal for one in watches)), watches)
        _run(plan, running, store, context, executors, show)
        if not show.is_complete:
            raise typer.Exit(FAILED)


def _plan(models: Sequence[str], results: ResultOptions, settings: ContextOptions, running: RunOptions) -> Plan:
    """Return what is to be done to which models."""
    to = running.to and running.to.value
    plan = make_plan(models, results.output, results.pipeline, in_place=results.in_place, to=to)
    if running.resume_from is None:
        return plan
    return resume_plan(plan, running.resume_from, make_context(settings, plan.passes.values()))


def _run(
    plan: Plan,
    running: RunOptions,
    store: CacheStore | None,
    context: PassContext,
    executors: ExecutorScope,
    show: Showing,
) -> None:
    """Do it, and show it being done."""

    async def work() -> None:
        async with store or nullcontext(), context, executors as executor:
            await optimize_files(
                plan.jobs,
                plan.treatment_of,
                executor=executor,
                journal=kept,
                limit=running.jobs,
                verify=running.verify_outputs,
                on_phase=show.phase,
                on_result=show.result,
            )

    finished = file_journal(running.journal, plan.passes, context, verify=running.verify_outputs)
    with warnings_as_lines(), finished as kept, show.closing(context.diag_ctx):
        run_until_interrupted(work, running.backend)
