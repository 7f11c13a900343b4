"""`--statistics`: the counters of the passes."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.options import FlagValue
from apass.cli.panels import MEASURE

__all__ = ["StatisticsForm", "StatisticsOptions"]


class StatisticsForm(Enum):
    """The output format of statistics."""

    TEXT = "text"
    """A paragraph for each pass."""
    JSON = "json"
    """One line of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsOptions:
    """The options of statistics."""

    PANEL: ClassVar[str] = MEASURE

    statistics: Annotated[
        StatisticsForm | None,
        typer.Option(
            "--statistics", metavar="[=FORM]", help="Show the counters of the passes: text (default) or json."
        ),
        FlagValue("--statistics", "text"),
    ] = None

    @property
    def prints_data(self) -> bool:
        """Whether the counters are printed as JSON."""
        return self.statistics is StatisticsForm.JSON

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that sums the counters, or None if it is not enabled."""
        return None if self.statistics is None else _Statistics(self.statistics)


class _Statistics(RunObserver):
    def __init__(self, form: StatisticsForm) -> None:
        self._form = form
        self._instrument = instruments.StatisticsInstrument()

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        is_json = self._form is StatisticsForm.JSON
        show(json.dumps(self._instrument.as_json()) if is_json else self._instrument.render())
