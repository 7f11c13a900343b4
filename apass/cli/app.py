"""The commands and their options."""

from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from apass.cli.complaints import FAILED, complaints, warnings_as_lines
from apass.cli.inputs import check_places
from apass.cli.interrupts import check_backend, run_until_interrupted
from apass.cli.listing import describe_passes
from apass.cli.optimizing import optimize_files
from apass.cli.planning import make_plan
from apass.cli.reporting import Reporter
from apass.cli.settings import make_context
from apass.instruments import PassTimingInstrument

__all__ = ["app", "main"]

app = typer.Typer(
    name="apass",
    help="Compiler passes that wait: optimize many models concurrently in one event loop.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(Enum):
    """What a result can be written as."""

    RELAY = "relay"
    """Relay's text."""


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"apass {version('apass')}")
        raise typer.Exit


@app.callback()
def _root(
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


@app.command("opt")
def opt(
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Files, directories and globs.")],
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", "-p", help="Passes to run, such as 'A,Repeat{times=3}(B,C)'.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Where results go [beside: NAME.opt.onnx].")
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
    timing: Annotated[bool, typer.Option("--timing", help="Show the time that each pass took.")] = False,
    to: Annotated[
        Format | None, typer.Option("--to", help="Write results in this format instead of the model's own.")
    ] = None,
    verify_outputs: Annotated[
        bool, typer.Option("--verify-outputs", help="Run models before and after on the same inputs and compare.")
    ] = False,
) -> None:
    """Optimize models, all of them concurrently in one event loop, and write the results.

    Exit status: 0, or 1 if a model failed (the others are written), 2 if nothing was begun, 130 after Ctrl-C.
    """
    with complaints():
        check_backend(backend)
        plan = make_plan(models, output, pipeline, in_place=in_place, to=to and to.value)
        timer = PassTimingInstrument() if timing else None
        instruments = [timer] if timer else []
        context = make_context(opt_level, disable or [], require or [], config or [], instruments, plan.passes.values())
        check_places(plan.jobs, output)
        reporter = Reporter(len(plan.jobs))

        async def work() -> None:
            async with context:
                await optimize_files(
                    plan.jobs,
                    plan.treatment_of,
                    limit=jobs,
                    verify=verify_outputs,
                    on_phase=reporter.phase,
                    on_result=reporter.result,
                )

        try:
            with reporter, warnings_as_lines():
                run_until_interrupted(work, backend)
        finally:
            reporter.summarize(context.diag_ctx)
            if timer is not None:
                reporter.show(timer.render(merge=True))
        if not reporter.is_complete:
            raise typer.Exit(FAILED)


@app.command("passes")
def passes(
    name: Annotated[str | None, typer.Argument(help="Show one pass, with its options and its whole text.")] = None,
) -> None:
    """List passes with level, requirements, options and a line of documentation."""
    with complaints():
        out = Console(highlight=False, soft_wrap=True)
        for line in describe_passes(name):
            out.print(line)


def main() -> None:
    """Run the command line; the entry point `apass`."""
    app()
