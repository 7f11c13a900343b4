"""`--memory`: how much memory each pass took."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from apass.cli.instruments.base import PANEL, Run, Watch
from apass.instruments import PassMemoryInstrument

__all__ = ["MemoryOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """What the command line says of memory."""

    memory: Annotated[
        bool,
        typer.Option(
            "--memory",
            help="Show the memory that each pass took; slow, and exact with --jobs 1.",
            rich_help_panel=PANEL,
        ),
    ] = False
    """Whether to show it."""

    def watch(self, run: Run) -> Watch | None:
        """Return what measures it, if it is asked for."""
        return _Memory() if self.memory else None


class _Memory(Watch):
    def __init__(self) -> None:
        self._instrument = PassMemoryInstrument()

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        show(self._instrument.render())
