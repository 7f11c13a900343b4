"""`--progress` and `--watch`: how far a run has come, and what runs and waits meanwhile."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from apass.cli.inputs import Job
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.cli.optimize import JobResult
from apass.instruments.live_view import LiveViewInstrument
from apass.instruments.progress import ProgressInstrument

__all__ = ["ProgressOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressOptions:
    """What the command line says of progress."""

    progress: Annotated[
        bool | None,
        typer.Option(
            "--progress/--no-progress",
            help="Show modules, passes and functions at work, or no bar; in a pipe, a line now and then.",
            rich_help_panel=PANEL,
        ),
    ] = None
    """Whether to show how far the run has come; None is a bar on a terminal, and nothing elsewhere."""
    watch_live: Annotated[
        bool,
        typer.Option("--watch", help="Show what runs, what waits, since when and for what.", rich_help_panel=PANEL),
    ] = False
    """Whether to show each pass at work."""
    progress_interval: Annotated[
        float,
        typer.Option(
            "--progress-interval",
            metavar="SECONDS",
            min=0.01,
            help="How often to print where there is no terminal.",
            rich_help_panel=PANEL,
        ),
    ] = 5.0
    """Seconds between two lines."""

    def watch(self, run: Run) -> Watch | None:
        """Return what shows the run, if it is asked for."""
        if not self.watch_live and self.progress is None:
            return None
        if not self.watch_live and not self.progress:
            return _Nothing()
        kind = LiveViewInstrument if self.watch_live else ProgressInstrument
        return _Progress(kind(len(run.plan.jobs), interval=self.progress_interval))


class _Nothing(Watch):
    takes_terminal = True


class _Progress(Watch):
    takes_terminal = True

    def __init__(self, instrument: ProgressInstrument) -> None:
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
        # No pass has begun on it, so the instrument knows nothing of it.
        if result.job.name in self._loading:
            self._loading.discard(result.job.name)
            self._instrument.activity.lose()
