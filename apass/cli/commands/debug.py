"""`apass debug`: steps through a pipeline in the terminal."""

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from apass.cli.command import Command
from apass.cli.errors import errors_as_lines, failure_text, warnings_as_lines
from apass.cli.event_loop import run_until_interrupted
from apass.cli.exit_status import FAILED, INTERRUPTED
from apass.cli.inputs import check_writable
from apass.cli.options import with_options
from apass.cli.planning import make_plan, pipeline_text, plan_files
from apass.cli.settings import PipelineOption, ReplayOptions, make_context
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.errors import InputError
from apass.instruments.pause.breakpoints import parse_breakpoint

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


class Others(Enum):
    """What other models do while one is paused."""

    RUN = "run"
    """They go on."""
    STOP = "stop"
    """They stop at their next pass."""


@app.command(
    "debug",
    cls=Command,
    epilog="Example:\n\napass debug model.onnx -p onnx.Default --break 'changed:main' --break error",
)
@with_options(ReplayOptions)
def debug(
    *,
    models: Annotated[list[str], typer.Argument(metavar="MODELS...", help="Model files, directories or globs.")],
    pipeline: PipelineOption = None,
    breakpoints: Annotated[
        list[str] | None,
        typer.Option(
            "--break",
            metavar="BREAKPOINT",
            help="Pause at pass:NAME, function:NAME, module:NAME, changed:FUNCTION, text:TEXT, error or wait:SECONDS; "
            "may be repeated.",
        ),
    ] = None,
    others: Annotated[
        Others, typer.Option("--others", help="Let other models run while one is paused, or stop them.")
    ] = Others.RUN,
    options: tuple[ReplayOptions],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR|FILE", help=r"Write the results here \[write none]."),
    ] = None,
    _load: LoadOption = None,
) -> None:
    """Step through a pipeline in the terminal, and change modules on the way.

    The first pass pauses. The keys are in the last line of the screen: s steps to the next pass, n runs past it, f to
    the end of the pass around it, c to the next breakpoint; k skips the pass, e edits the module in $EDITOR, r runs the
    pass again with other options, w writes a reproducer, b adds a breakpoint, q quits.

    Exit status: 0 if all models were optimized; 1 if one failed; 2 if nothing was started; 130 if it was quit before.
    """
    with errors_as_lines():
        for text in breakpoints or ():
            parse_breakpoint(text)
        # Textual is an extra, which `--help` does not need.
        from apass.cli.debugger.main import make_session, run_debugger

        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise InputError(
                "apass debug needs a terminal, but its input or output is a pipe or a file; "
                "in a program, use apass.instruments.PauseInstrument"
            )
        jobs = plan_files(models, output, in_place=False, to=None)
        plan = make_plan(
            jobs, None if pipeline is None else pipeline_text(pipeline, [job.suffix for job in jobs]), None
        )
        if output is not None:
            check_writable(plan.jobs, output)

        def context(instruments: list[object]) -> Any:
            return make_context(options[0], plan.passes.values(), instruments)

        session = make_session(plan, context, breakpoints or (), others.value, writes=output is not None)
        with warnings_as_lines():
            # Textual runs on asyncio only.
            run_until_interrupted(lambda: run_debugger(session), "asyncio")
        if session.failure is not None:
            raise session.failure
        for job in session.done:
            echo(f"optimized {job.name}" + ("" if output is None else f": {job.target}"))
        errors: dict[str, BaseException] = session.errors
        # `--help` does not need it.
        from rich.console import Console

        console = Console(highlight=False, soft_wrap=True)
        for name, error in errors.items():
            console.print(failure_text(name, error))
        if session.unfinished:
            echo(f"quit before the end of {session.unfinished} of {len(session.jobs)} models")
            raise typer.Exit(INTERRUPTED)
        raise typer.Exit(FAILED if errors else 0)
