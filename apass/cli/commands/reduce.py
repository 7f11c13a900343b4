"""`apass reduce`: finds a smaller module that a pass fails on."""

import shlex
from pathlib import Path
from typing import Annotated, Final, Self

import typer
from rich.console import Console

from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.cli.output_files import OutputError, cannot_write
from apass.cli.settings import UnknownAnswers, UnknownAnswersOption
from apass.cli.terminal import echo
from apass.cli.user_modules import LoadOption
from apass.core.user_modules import load_options
from apass.debugging.reduce import Reduced
from apass.debugging.reduce import reduce as find_smaller
from apass.instruments.reproducer.folder import read_reproducer

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@app.command("reduce")
def reduce(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder written by `apass opt --reproducer`.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help=r"Write the result to this directory \[FOLDER/reduced]."),
    ] = None,
    message: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Match the message of the failure against this pattern.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="Stop after this time, with the smallest module so far."),
    ] = None,
    isolate: Annotated[bool, typer.Option("--isolate", help="Run each attempt in a separate process.")] = False,
    unknown_answers: UnknownAnswersOption = UnknownAnswers.ERROR,
    _load: LoadOption = None,
) -> None:
    """Write a smaller reproducer, with which the pass fails in the same way.

    Exit status: 0, 2 if there is nothing to reduce, or 4 if the result cannot be written.
    """
    with errors_as_lines():
        backend = read_reproducer(folder).backend
        check_backend(backend)
        # Filled by `work`: `run_until_interrupted` returns no value.
        results: list[Reduced] = []

        async def work() -> None:
            try:
                result = await find_smaller(
                    folder,
                    message=message,
                    timeout=timeout,
                    isolate=isolate,
                    output=output,
                    report=line.report,
                    on_try=line.update,
                    unknown_answers=unknown_answers.value,
                )
            except OSError as error:
                raise OutputError(cannot_write("reduce", output or folder, error)) from None
            results.append(result)

        with warnings_as_lines(), _StatusLine() as line:
            run_until_interrupted(work, backend)
        _show(results[0])


class _StatusLine:
    """The status line of the search on a terminal; nothing in a pipe or a file."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._status = console.status("reading the module") if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def update(self, tries: int, size: int) -> None:
        """Show the progress of the search."""
        if self._status is not None:
            self._status.update(f"{tries:,} modules tried, the smallest has {size:,} bytes")

    def report(self, text: str) -> None:
        """Print a line above the status line."""
        self.__exit__()
        echo(text)
        self.__enter__()


def _show(result: Reduced) -> None:
    echo(f"before: {result.before}")
    echo(f"after:  {result.after}")
    note = "" if result.complete else "; stopped by --timeout, so a smaller module may exist"
    echo(f"{result.tries} modules tried{note}")
    echo(f"to reproduce: {shlex.join(['apass', *load_options(), 'replay', str(result.folder)])}")
