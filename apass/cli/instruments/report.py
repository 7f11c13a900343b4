"""`--report`: an HTML page with the changes of each pass to each model."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.optimize import JobResult
from apass.cli.output_files import check_file, write_file
from apass.cli.panels import RECORD
from apass.errors import InputError

__all__ = ["ReportOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The options of the report."""

    PANEL: ClassVar[str] = RECORD

    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Write an HTML page with the changes and times of each pass on each model.",
        ),
    ] = None
    provenance: Annotated[
        bool,
        typer.Option("--provenance", help="Show in the report which pass made and changed the nodes under the mouse."),
    ] = False

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that records the run, or None if it is not enabled.

        Raises:
            InputError: if the page cannot be written, or there is none.

        """
        if self.report is None:
            if self.provenance:
                raise InputError("--provenance adds to the page of --report; add --report FILE.html")
            return None
        check_file("--report", self.report)
        return _Report(self.report, provenance=self.provenance)


class _Report(RunObserver):
    def __init__(self, path: Path, *, provenance: bool) -> None:
        self._path = path
        self._provenance = instruments.ProvenanceInstrument() if provenance else None
        self._instrument = instruments.ReportInstrument("apass opt", provenance=self._provenance)

    def instruments(self) -> Iterable[object]:
        return filter(None, (self._provenance, self._instrument))

    def result(self, result: JobResult) -> None:
        if result.error is not None:
            self._instrument.fail(result.job.name, result.error)

    def finish(self, show: Callable[[str], None]) -> None:
        write_file("--report", self._path, self._instrument.render())
        show(f"report: {self._path}")
