"""Snapshots of `--journal`: models between the passes of a pipeline."""

from collections.abc import Callable, Iterable
from pathlib import Path

from apass import instruments
from apass.cli.instruments.base import RunObserver

__all__ = ["SnapshotObserver"]


class SnapshotObserver(RunObserver):
    """Continues pipelines that an earlier run with the same journal has not finished."""

    def __init__(self, journal: Path) -> None:
        self._instrument = instruments.SnapshotInstrument(journal.with_name(f"{journal.name}.snapshots"))

    def instruments(self) -> Iterable[object]:
        """Return the instrument."""
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        """Print which pipelines were continued."""
        for name, position in self._instrument.continued.items():
            show(f"{name}: continued after {position} of an earlier run")
