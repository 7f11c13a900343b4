"""`--dump-ir`: the result of each pass, in folders nested like the pipeline."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, RunObserver, RunPlan
from apass.core.position import Position
from apass.instruments import DumpTree

__all__ = ["DumpingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpingOptions:
    """The options of dumping."""

    dump_ir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the result of each pass to this directory.", rich_help_panel=PANEL),
    ] = None
    """The directory of the dumps."""

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that dumps, or None if it is not enabled.

        Raises:
            InputError: if the folder is a file.

        """
        return None if self.dump_ir is None else _Dumping(self.dump_ir, run)


class _Dumping(RunObserver):
    def __init__(self, folder: Path, run: RunPlan) -> None:
        self._run = run
        self._jobs = {job.name: job for job in run.plan.jobs}
        try:
            self._tree = DumpTree(folder, resume=self._resume)
        except NotADirectoryError as error:
            raise InputError(f"--dump-ir: {error}") from None

    def instruments(self) -> Iterable[object]:
        return (self._tree,)

    def _resume(self, position: Position, path: Path) -> str:
        """Return the command that continues after the pass at `position`."""
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
