"""`--dump-ir`: the result of each pass, in folders nested like the pipeline."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.inputs import Job
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import PRINT
from apass.core.ir_plugin import file_suffix
from apass.core.position import Position
from apass.errors import InputError

__all__ = ["DumpingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpingOptions:
    """The options of dumping."""

    PANEL: ClassVar[str] = PRINT

    dump_ir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the result of each pass to this directory.")
    ] = None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that dumps, or None if it is not enabled.

        Raises:
            InputError: if the folder is a file.

        """
        return None if self.dump_ir is None else _Dumping(self.dump_ir, run)


class _Dumping(RunObserver):
    def __init__(self, folder: Path, run: RunPlan) -> None:
        try:
            self._tree = instruments.DumpTree(
                folder, resume=_Resume({job.name: _command(job, run) for job in run.plan.jobs})
            )
        except NotADirectoryError as error:
            raise InputError(f"--dump-ir: {error}") from None

    def instruments(self) -> Iterable[object]:
        return (self._tree,)


@dataclass(frozen=True, slots=True)
class _Resume:
    """Returns the command that continues after a pass; can be pickled for a worker."""

    commands: Mapping[str, Sequence[str]]
    """The command for each model, without the position."""

    def __call__(self, position: Position, path: Path) -> str:
        return shlex.join([*self.commands[position.module or ""], "--resume-from", str(path)])


def _command(job: Job, run: RunPlan) -> Sequence[str]:
    context = run.context
    pipeline = str(run.plan.passes[job.suffix])
    parts = ["apass", "opt", str(job.source), "-p", pipeline, "-O", str(context.opt_level)]
    for option, values in (
        ("--disable", context.disable),
        ("--require", context.require),
        ("--config", context.config),
    ):
        for value in values or ():
            parts += [option, value]
    result = file_suffix(job.target)
    if result != job.suffix:
        parts += ["--to", result.removeprefix(".")]
    return parts
