"""`--trace`: a timeline of the run, in the Chrome trace format."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.output_files import OutputError, cannot_write
from apass.cli.panels import MEASURE
from apass.errors import InputError
from apass.instruments import TraceInstrument

__all__ = ["TracingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracingOptions:
    """The options of tracing."""

    PANEL: ClassVar[str] = MEASURE

    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write a timeline for ui.perfetto.dev or chrome://tracing."),
    ] = None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that traces the run, or None if it is not enabled.

        Raises:
            InputError: if the file cannot be written.

        """
        if self.trace is None:
            return None
        try:
            self.trace.parent.mkdir(parents=True, exist_ok=True)
            return _Tracing(_Trace(self.trace))
        except OSError as error:
            raise InputError(f"--trace cannot write {self.trace}: {error}") from None


class _Trace(TraceInstrument):
    """A trace whose failure does not replace the results of the run."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.error: OSError | None = None
        """The reason why the file was not written."""

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker: it writes no file."""
        return super().for_worker()

    async def enter_pass_ctx(self) -> None:
        try:
            await super().enter_pass_ctx()
        except OSError as error:
            raise InputError(cannot_write("--trace", self.path, error)) from None

    async def exit_pass_ctx(self) -> None:
        try:
            await super().exit_pass_ctx()
        except OSError as error:
            self.error = error


class _Tracing(RunObserver):
    def __init__(self, instrument: _Trace) -> None:
        self._instrument = instrument

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        if self._instrument.error is not None:
            raise OutputError(cannot_write("--trace", self._instrument.path, self._instrument.error))
