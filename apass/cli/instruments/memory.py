"""`--memory`: the memory that each pass used."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import MEASURE

__all__ = ["MemoryOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """The options of memory measurement."""

    PANEL: ClassVar[str] = MEASURE

    memory: Annotated[
        bool, typer.Option("--memory", help="Show the memory that each pass used; slow, and exact only with --jobs 1.")
    ] = False

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that measures memory, or None if it is not enabled."""
        return _Memory() if self.memory else None


class _Memory(RunObserver):
    def __init__(self) -> None:
        self._instrument = instruments.PassMemoryInstrument()

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        show(self._instrument.render())
