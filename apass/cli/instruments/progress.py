"""`--progress` and `--watch`: the progress of a run, and its current passes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from apass.cli.inputs import Job
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.optimize import JobResult
from apass.cli.panels import RUN

__all__ = ["ProgressOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOptions:
    """The options of progress."""

    PANEL: ClassVar[str] = RUN

    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Show or hide the counts of running modules, passes and functions; in a pipe, as lines.",
        ),
    ] = None
    watch_live: Annotated[
        bool, typer.Option("--watch", help="Show each running and waiting pass, with its waiting time and reason.")
    ] = False
    progress_interval: Annotated[
        float,
        typer.Option(
            "--progress-interval",
            metavar="SECONDS",
            min=0.01,
            help="Print progress in a pipe or a file at this interval.",
        ),
    ] = 5.0

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that shows progress, or None for the default bar."""
        if not self.watch_live and self.progress is None:
            return None
        if not self.watch_live and not self.progress:
            return _NoBar()
        # Rich's live display takes long to import.
        from apass.instruments.live_view import LiveViewInstrument
        from apass.instruments.progress import ProgressInstrument

        instrument = LiveViewInstrument if self.watch_live else ProgressInstrument
        return _Progress(instrument(len(run.plan.jobs), interval=self.progress_interval))


class _NoBar(RunObserver):
    """`--no-progress`: claims the terminal, so that no bar is shown."""

    takes_terminal = True


class _Progress(RunObserver):
    takes_terminal = True

    def __init__(self, instrument: Any) -> None:
        self._instrument = instrument
        self._loading: set[str] = set()

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def phase(self, job: Job, phase: str) -> None:
        if phase == "loading":
            self._loading.add(job.name)
        elif phase != "done":
            self._loading.discard(job.name)

    def result(self, result: JobResult) -> None:
        # Loading failed. No pass has run on the model, so the instrument has not counted it.
        if result.job.name in self._loading:
            self._loading.discard(result.job.name)
            self._instrument.activity.lose()
