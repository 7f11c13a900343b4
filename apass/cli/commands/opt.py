"""`apass opt`: optimize models, all of them concurrently in one event loop."""

from collections.abc import Sequence
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.caches import store_at
from apass.cli.complaints import FAILED, complaints, warnings_as_lines
from apass.cli.executing import executor_scope
from apass.cli.inputs import check_places
from apass.cli.interrupts import check_backend, run_until_interrupted
from apass.cli.journaling import file_journal
from apass.cli.optimizing import optimize_files
from apass.cli.options import with_options
from apass.cli.planning import make_plan
from apass.cli.reporting import Reporter
from apass.cli.resuming import resume_plan
from apass.cli.settings import make_context
from apass.cli.showing import Showing
from apass.cli.watching import WATCHES, Run, WatchOptions

__all__ = ["opt"]


class Format(Enum):
    """What a result can be written as."""

    RELAY = "relay"
    """Relay's text."""


@with_options(*WATCHES)
def opt(
    *,
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Files, directories and globs.")],
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", "-p", help="Passes to run, such as 'A,Repeat{times=3}(B,C)'.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help=r"Where results go \[beside: NAME.opt.onnx].")
    ] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Write each result over its model.")] = False,
    opt_level: Annotated[int, typer.Option("--opt-level", "-O", help="Run the passes of this level and below.")] = 2,
    disable: Annotated[list[str] | None, typer.Option("--disable", metavar="NAME", help="Leave this pass out.")] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", metavar="NAME", help="Run this pass whatever its level.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Set an option for passes.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Models in memory at once.")] = 16,
    backend: Annotated[str, typer.Option("--backend", help="Event loop: asyncio or trio.")] = "asyncio",
    to: Annotated[
        Format | None, typer.Option("--to", help="Write results in this format instead of the model's own.")
    ] = None,
    resume_from: Annotated[
        Path | None,
        typer.Option("--resume-from", metavar="FILE", help="Go on after the pass that --dump-ir wrote FILE for."),
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option("--executor", help=r"Where passes run: process, thread, interpreter, dask or dask://HOST:PORT."),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option("--cache", metavar="PLACE", help="Keep results in a file, at redis://HOST:PORT, or 'default'."),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            "--journal", metavar="FILE", help="Keep in FILE what is finished, and go on from there next time."
        ),
    ] = None,
    verify_outputs: Annotated[
        bool, typer.Option("--verify-outputs", help="Run models before and after on the same inputs and compare.")
    ] = False,
    options: Sequence[WatchOptions],
) -> None:
    """Optimize models, all of them concurrently in one event loop, and write the results.

    Exit status: 0, or 1 if a model failed (the others are written), 2 if nothing was begun, 130 after Ctrl-C.
    """
    with complaints():
        check_backend(backend)
        plan = make_plan(models, output, pipeline, in_place=in_place, to=to and to.value)
        if resume_from is not None:
            levels = make_context(opt_level, disable or [], require or [], [], [], plan.passes.values())
            plan = resume_plan(plan, resume_from, levels)
        run = Run(
            plan=plan,
            opt_level=opt_level,
            disable=disable or [],
            require=require or [],
            config=config or [],
            backend=backend,
        )
        watches = [watch for one in options if (watch := one.watch(run)) is not None]
        instruments = [one for watch in watches for one in watch.instruments()]
        store = None if cache is None else store_at(cache)
        pipelines = plan.passes.values()
        context = make_context(opt_level, run.disable, run.require, run.config, instruments, pipelines, store)
        executors = executor_scope(executor, context.instruments)
        check_places(plan.jobs, output)
        show = Showing(Reporter(len(plan.jobs), bar=not any(one.takes_terminal for one in watches)), watches)

        async def work() -> None:
            async with store or nullcontext(), context, executors as chosen:
                await optimize_files(
                    plan.jobs,
                    plan.treatment_of,
                    executor=chosen,
                    journal=kept,
                    limit=jobs,
                    verify=verify_outputs,
                    on_phase=show.phase,
                    on_result=show.result,
                )

        finished = file_journal(journal, plan.passes, context, verify=verify_outputs)
        with warnings_as_lines(), finished as kept, show.closing(context.diag_ctx):
            run_until_interrupted(work, backend)
        if not show.is_complete:
            raise typer.Exit(FAILED)
