"""`--reproducer`: a folder for each failed pass, for `apass replay`."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import REPRODUCE
from apass.cli.terminal import print_error
from apass.errors import InputError, OutputsChangedError, ReproducerError
from apass.instruments.reproducer.folder import Failure, read_reproducer
from apass.loading.user_modules import load_options

__all__ = ["ReproducingOptions"]

MAX_COMMANDS: Final = 10
"""Number of `apass replay` commands that are printed. A folder is written for every failure."""

MAX_SECONDS: Final = 60.0
"""Time limit for making one model smaller whose outputs a pass has changed."""

_OUTPUTS_CHANGED: Final = Failure.of(OutputsChangedError()).type


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproducingOptions:
    """The options of reproducers."""

    PANEL: ClassVar[str] = REPRODUCE

    reproducer: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a folder for each failed pass, for `apass replay`.")
    ] = None
    crash_safe: Annotated[
        bool,
        typer.Option(
            "--crash-safe",
            help="Write the input before each pass, not only before native ones, so that a crash leaves a folder.",
        ),
    ] = False

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that writes reproducers, or None if it is not enabled.

        Raises:
            InputError: if the folder is a file, or there is none for `--crash-safe`.

        """
        if self.reproducer is None:
            if self.crash_safe:
                raise InputError("--crash-safe writes reproducers; add --reproducer DIR")
            return None
        return _Reproducing(self.reproducer, crash_safe=self.crash_safe)


class _Reproducing(RunObserver):
    def __init__(self, folder: Path, *, crash_safe: bool) -> None:
        try:
            self._instrument = instruments.ReproducerInstrument(folder, crash_safe=crash_safe)
        except NotADirectoryError as error:
            raise InputError(f"--reproducer: {error}") from None
        self._reductions: list[str] = []

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def begin(self) -> None:
        """Report the passes during which the process of an earlier run has ended.

        Raises:
            InputError: if a folder cannot be moved.

        """
        try:
            folders = self._instrument.recover()
        except OSError as error:
            raise InputError(f"--reproducer: {error}") from None
        for folder in folders:
            found = read_reproducer(folder)
            where = "" if found.module is None else f" on {found.module}"
            print_error(f"the process of an earlier run ended during pass {found.pass_name}{where}")
            print_error(f"to reproduce: {_replay(folder)}")

    async def follow_up(self) -> None:
        """Make the models smaller whose outputs a pass has changed."""
        # Few runs have anything to reduce.
        from apass.debugging.reduce import reduce

        for folder in self._instrument.folders[:MAX_COMMANDS]:
            if (failure := read_reproducer(folder).failure) is None or failure.type != _OUTPUTS_CHANGED:
                continue
            try:
                reduced = await reduce(folder, timeout=MAX_SECONDS)
                self._reductions.append(f"reduced to {reduced.after}: {reduced.folder}")
            except (ReproducerError, OSError) as error:
                self._reductions.append(f"{folder} cannot be reduced: {error}")

    def finish(self, show: Callable[[str], None]) -> None:
        for line in self._reductions:
            show(line)
        folders = self._instrument.folders
        for folder in folders[:MAX_COMMANDS]:
            show(f"to reproduce: {_replay(folder)}")
        if len(folders) > MAX_COMMANDS:
            show(f"and {len(folders) - MAX_COMMANDS} more in {self._instrument.reproducer_dir}")


def _replay(folder: Path) -> str:
    """Return the command that replays a folder."""
    return shlex.join(["apass", *load_options(), "replay", str(folder)])
