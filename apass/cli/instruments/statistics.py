"""`--statistics`: what the passes counted."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import typer

from apass.cli.alone import Alone
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.instruments import StatisticsInstrument

__all__ = ["StatisticsForm", "StatisticsOptions"]


class StatisticsForm(Enum):
    """How statistics are shown."""

    TEXT = "text"
    """A paragraph for each pass."""
    JSON = "json"
    """A line for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsOptions:
    """What the command line says of statistics."""

    statistics: Annotated[
        StatisticsForm | None,
        typer.Option(
            "--statistics",
            metavar="=FORM",
            help="Show what the passes counted: as text (if nothing is said) or json.",
            rich_help_panel=PANEL,
        ),
        Alone("--statistics", "text"),
    ] = None
    """Whether to show it, and how."""

    def watch(self, run: Run) -> Watch | None:
        """Return what sums it, if it is asked for."""
        return None if self.statistics is None else _Statistics(self.statistics)


class _Statistics(Watch):
    def __init__(self, form: StatisticsForm) -> None:
        self._form = form
        self._instrument = StatisticsInstrument()

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        is_json = self._form is StatisticsForm.JSON
        show(json.dumps(self._instrument.as_json()) if is_json else self._instrument.render())
