"""`--reproducer`: for each pass that fails, a folder with all that it takes to see it fail again."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.instruments import ReproducerInstrument

__all__ = ["ReproducingOptions"]

SHOWN: Final = 10
"""How many commands are printed; the folders are all there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducingOptions:
    """What the command line says of reproducers."""

    reproducer: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a folder for each pass that fails.", rich_help_panel=PANEL),
    ] = None
    """Where to."""

    def watch(self, run: Run) -> Watch | None:
        """Return what writes reproducers, if it is asked for.

        Raises:
            InputError: if the folder is a file.

        """
        return None if self.reproducer is None else _Reproducing(self.reproducer)


class _Reproducing(Watch):
    def __init__(self, folder: Path) -> None:
        try:
            self._instrument = ReproducerInstrument(folder)
        except NotADirectoryError as error:
            raise InputError(f"--reproducer: {error}") from None

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        folders = self._instrument.folders
        for folder in folders[:SHOWN]:
            show(f"to see it fail again: {shlex.join(['apass', 'replay', str(folder)])}")
        if len(folders) > SHOWN:
            show(f"and {len(folders) - SHOWN} more in {self._instrument.reproducer_dir}")
