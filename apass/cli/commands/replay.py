"""`apass replay`: run a pass that failed once more, on the module that it failed on."""

import traceback
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.errors import FAILED, complaints, warnings_as_lines
from apass.cli.event_loop import check_backend, run_until_interrupted
from apass.debugging.replay import Replay, Verdict
from apass.debugging.replay import replay as run_again
from apass.instruments.reproducer.folder import read_reproducer, versions

__all__ = ["replay"]

OTHERWISE = 3
"""Exit status when the pass fails another way."""


def replay(
    *,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `apass opt --reproducer` wrote.")],
    backend: Annotated[
        str | None, typer.Option("--backend", help=r"Event loop: asyncio or trio \[the one that it failed in].")
    ] = None,
) -> None:
    """Run just the pass that failed, on the module that it failed on, under the context that it failed in.

    Exit status: 1 if it fails the same way, 0 if it does not fail any more, 3 if it fails another way, 2 if it cannot
    be run.
    """
    with complaints():
        known = read_reproducer(folder)
        loop = known.backend if backend is None else backend
        check_backend(loop)
        found: list[Replay] = []

        async def work() -> None:
            found.append(await run_again(folder))

        with warnings_as_lines():
            run_until_interrupted(work, loop)
        _show(found[0])
        raise typer.Exit({Verdict.SAME: FAILED, Verdict.OTHER: OTHERWISE, Verdict.NONE: 0}[found[0].verdict])


def _show(result: Replay) -> None:
    known = result.reproducer
    if result.error is not None:
        typer.echo("".join(traceback.format_exception(result.error)), nl=False)
    where = f"pass {known.pass_name} at {known.position}" + (f" on {known.module}" if known.module else "")
    typer.echo(f"{where}: {result.verdict.value}")
    if result.verdict is not Verdict.SAME:
        typer.echo(f"  it was {known.failure}")
        now = versions()
        for name in sorted(known.versions.keys() | now.keys()):
            then, here = known.versions.get(name, "not there"), now.get(name, "not there")
            if then != here:
                typer.echo(f"  {name} was {then}, is {here}")
    if known.context.lost:
        typer.echo(f"  without the options {', '.join(known.context.lost)}, which could not be written")
