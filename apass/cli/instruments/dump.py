"""`--dump-ir`: what every pass made of every model, in folders nested like the pipeline."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.core.position import Position
from apass.instruments import DumpTree

__all__ = ["DumpingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpingOptions:
    """What the command line says of dumping."""

    dump_ir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write what each pass returns, in folders.", rich_help_panel=PANEL),
    ] = None
    """Where to."""

    def watch(self, run: Run) -> Watch | None:
        """Return what dumps, if it is asked for.

        Raises:
            InputError: if the folder is a file.

        """
        return None if self.dump_ir is None else _Dumping(self.dump_ir, run)


class _Dumping(Watch):
    def __init__(self, folder: Path, run: Run) -> None:
        self._run = run
        self._jobs = {job.name: job for job in run.plan.jobs}
        try:
            self._tree = DumpTree(folder, resume=self._resume)
        except NotADirectoryError as error:
            raise InputError(f"--dump-ir: {error}") from None

    def instruments(self) -> Iterable[object]:
        return (self._tree,)

    def _resume(self, position: Position, path: Path) -> str:
        """Return the command that goes on."""
        run, context, job = self._run, self._run.context, self._jobs[position.module or ""]
        parts = [
            "apass",
            "opt",
            str(job.source),
            "-p",
            str(run.plan.passes[job.source.suffix]),
            "-O",
            str(context.opt_level),
        ]
        for option, values in (
            ("--disable", context.disable),
            ("--require", context.require),
            ("--config", context.config),
        ):
            for value in values or ():
                parts += [option, value]
        if job.target.suffix != job.source.suffix:
            parts += ["--to", job.target.suffix.removeprefix(".")]
        return shlex.join([*parts, "--resume-from", str(path)])
