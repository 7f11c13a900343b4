"""`--reproducer`: a folder for each failed pass, for `apass replay`."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from apass import instruments
from apass.cli.instruments.base import PANEL, RunObserver, RunPlan
from apass.core.user_modules import load_options
from apass.errors import InputError

__all__ = ["ReproducingOptions"]

MAX_COMMANDS: Final = 10
"""Number of `apass replay` commands that are printed. A folder is written for every failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducingOptions:
    """The options of reproducers."""

    reproducer: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write a folder for each failed pass, for `apass replay`.", rich_help_panel=PANEL
        ),
    ] = None
    """The directory of the folders."""

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that writes reproducers, or None if it is not enabled.

        Raises:
            InputError: if the folder is a file.

        """
        return None if self.reproducer is None else _Reproducing(self.reproducer)


class _Reproducing(RunObserver):
    def __init__(self, folder: Path) -> None:
        try:
            self._instrument = instruments.ReproducerInstrument(folder)
        except NotADirectoryError as error:
            raise InputError(f"--reproducer: {error}") from None

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        folders = self._instrument.folders
        for folder in folders[:MAX_COMMANDS]:
            show(f"to reproduce: {shlex.join(['apass', *load_options(), 'replay', str(folder)])}")
        if len(folders) > MAX_COMMANDS:
            show(f"and {len(folders) - MAX_COMMANDS} more in {self._instrument.reproducer_dir}")
