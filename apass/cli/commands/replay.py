"""`apass replay`: runs a failed pass again, on the module that it failed on."""

import traceback
from pathlib import Path
from typing import Annotated, Final

import typer

from apass.batch.formats import format_of
from apass.cli.check_command import CheckCommand, CheckTimeoutOption, read_command
from apass.cli.command import Command
from apass.cli.completion import complete_backend
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.exit_status import FAILED
from apass.cli.settings import AllowOption, UnknownAnswers, UnknownAnswersOption
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.debugging.replay import Replay, Verdict
from apass.debugging.replay import replay as run_again
from apass.instruments.reproducer.folder import read_reproducer, versions

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)

FAILED_DIFFERENTLY = 3
"""Exit status if the pass fails in a different way than recorded."""


@app.command("replay", cls=Command)
def replay(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder written by `apass opt --reproducer`.")],
    backend: Annotated[
        str | None,
        typer.Option(
            "--backend",
            autocompletion=complete_backend,
            help=r"Set the event loop: asyncio or trio \[the recorded one].",
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="CMD", help="Run this command on the result, as `apass reduce --check` does, if the pass succeeds."
        ),
    ] = None,
    check_timeout: CheckTimeoutOption = None,
    unknown_answers: UnknownAnswersOption = UnknownAnswers.ERROR,
    allow: AllowOption = None,
    _load: LoadOption = None,
) -> None:
    """Run the failed pass of a reproducer on the recorded module and context.

    The answers that the pass asked for are given again.

    Exit status: 0 if it succeeds, 1 if it fails in the same way, 2 if it cannot be run, 3 if it fails differently.
    """
    with errors_as_lines():
        recorded = read_reproducer(folder)
        loop = recorded.backend if backend is None else backend
        check_backend(loop)
        command = None
        if check is not None:
            file = Path(recorded.module_file or "")
            command = CheckCommand(read_command(check), format_of(file), file.name, check_timeout)
        # Filled by `work`: `run_until_interrupted` returns no value.
        results: list[Replay] = []

        async def work() -> None:
            results.append(
                await run_again(folder, check=command, unknown_answers=unknown_answers.value, allow=allow or ())
            )

        with warnings_as_lines():
            run_until_interrupted(work, loop)
        _show(results[0])
        statuses = {Verdict.SAME: FAILED, Verdict.OTHER: FAILED_DIFFERENTLY}
        raise typer.Exit(statuses.get(results[0].verdict, 0))


def _show(result: Replay) -> None:
    recorded = result.reproducer
    if result.error is not None:
        echo("".join(traceback.format_exception(result.error)), end="")
    elif result.failure is not None:
        echo(f"the check fails: {result.failure}")
    where = f"pass {recorded.pass_name} at {recorded.position}" + (f" on {recorded.module}" if recorded.module else "")
    echo(f"{where}: {result.verdict.value}")
    if result.verdict not in (Verdict.SAME, Verdict.SUCCEEDS):
        echo(f"  recorded failure: {recorded.failure or 'none'}")
        now = versions()
        for name in sorted(recorded.versions.keys() | now.keys()):
            then, here = recorded.versions.get(name, "not installed"), now.get(name, "not installed")
            if then != here:
                echo(f"  {name} was {then}, is now {here}")
    if recorded.context.lost:
        echo(f"  config options missing from the reproducer: {', '.join(recorded.context.lost)}")
