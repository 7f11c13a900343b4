"""`apass reduce`: how little of a module it takes for a pass to fail."""

import shlex
from pathlib import Path
from typing import Annotated, Self

import typer
from rich.console import Console

from apass.cli.errors import complaints, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.debugging.reduce import Reduced
from apass.debugging.reduce import reduce as find_smaller
from apass.instruments.reproducer.folder import read_reproducer

__all__ = ["reduce"]


def reduce(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `apass opt --reproducer` wrote.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help=r"Where the result goes \[FOLDER/reduced].")
    ] = None,
    message: Annotated[
        str | None, typer.Option(metavar="REGEX", help="What to find in the message of the failure.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Stop then, with the smallest so far.")
    ] = None,
    isolate: Annotated[bool, typer.Option("--isolate", help="Make each try in a process of its own.")] = False,
) -> None:
    """Make the module of a reproducer smaller while the pass fails the same way, and write a smaller reproducer.

    Exit status: 0, or 2 if there is nothing to reduce.
    """
    with complaints():
        backend = read_reproducer(folder).backend
        check_backend(backend)
        found: list[Reduced] = []

        async def work() -> None:
            found.append(
                await find_smaller(
                    folder,
                    message=message,
                    timeout=timeout,
                    isolate=isolate,
                    output=output,
                    report=line.report,
                    on_try=line.tell,
                )
            )

        with warnings_as_lines(), _Line() as line:
            run_until_interrupted(work, backend)
        _show(found[0])


class _Line:
    """The last line of a terminal, which says how far the search is; nothing where there is no terminal."""

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

    def tell(self, tries: int, size: int) -> None:
        """Say how far it is."""
        if self._status is not None:
            self._status.update(f"{tries:,} modules tried, {size:,} bytes the smallest")

    def report(self, text: str) -> None:
        """Print a line above it."""
        self.__exit__()
        typer.echo(text)
        self.__enter__()


def _show(result: Reduced) -> None:
    typer.echo(f"before: {result.before}")
    typer.echo(f"after:  {result.after}")
    left = "" if result.complete else "; the time was over, so less may do"
    typer.echo(f"{result.tries} modules were tried{left}")
    typer.echo(f"to see it fail: {shlex.join(['apass', 'replay', str(result.folder)])}")
