"""`ProgressInstrument`: shows how many modules are done, as a bar or as lines."""

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

from apass.core.instrument import pass_instrument
from apass.errors import MissingExtraError
from apass.executors.instrument_twins import remote_run
from apass.instruments.support.activity import ActiveCounts, Activity
from apass.instruments.support.events import Event, EventInstrument, EventKind

try:
    from rich.console import Console, Group, RenderableType
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text
except ModuleNotFoundError as _error:
    raise MissingExtraError(f"the progress bars need rich ({_error}): pip install 'apass[cli]'") from _error

__all__ = ["ProgressInstrument", "progress_text"]

_COUNTED: Final[tuple[EventKind, ...]] = ("started", "finished", "failed")
"""The events that change the counts."""


def progress_text(counts: ActiveCounts, total: int | None = None) -> str:
    """Return the progress of a run in one line.

    >>> counts = ActiveCounts(modules=2, modules_done=6, modules_failed=1, passes=4, functions=9, seconds=3)
    >>> progress_text(counts, total=8)
    '6 of 8 modules, 1 failed; running: 2 modules, 4 passes, 9 functions; 2.0 modules/s'
    """
    done = _counted(counts.modules_done if total is None else total, "module")
    if total is not None:
        done = f"{counts.modules_done} of {done}"
    failed = f", {counts.modules_failed} failed" if counts.modules_failed else ""
    running = [
        _counted(counts.modules, "module"),
        _counted(counts.passes, "pass"),
        _counted(counts.functions, "function"),
    ]
    return f"{done}{failed}; running: {', '.join(running)}; {counts.modules_per_second:.1f} modules/s"


@pass_instrument
class ProgressInstrument(EventInstrument):
    """Shows the numbers of finished, running and failed modules, passes and functions.

    The display is active while a context with the instrument is entered. On a terminal it is a bar, which a thread
    redraws. Otherwise a line is printed every `interval` seconds, and one at the end. An outermost pass without
    a module name counts as a module. Memory grows with the number of concurrent runs.

    If an executor optimizes whole modules, a module in a worker counts as one running pass. Its other passes and its
    functions are counted when it is done.

    Parameters:
        total: the number of modules, if it is known.
        console: the console to write to; standard error by default.
        interval: seconds between two lines without a terminal.
        kinds: the kinds of events that a subclass shows.

    """

    def __init__(
        self,
        total: int | None = None,
        *,
        console: Console | None = None,
        interval: float = 5.0,
        kinds: Collection[EventKind] = _COUNTED,
    ) -> None:
        super().__init__(kinds, kinds)
        self.activity: Activity = Activity()
        """The counts, and the passes and functions that run."""
        self.total = total
        """The number of modules, or None if it is unknown."""
        self._console = Console(stderr=True) if console is None else console
        self._interval = interval
        self._live: Live | None = None
        self._printer: _Printer | None = None
        self._entered = 0
        self._lock = threading.Lock()

    def enter_pass_ctx(self) -> None:
        """Start the display with the first context."""
        with self._lock:
            self._entered += 1
            if self._entered > 1:
                return
            if self._console.is_terminal:
                self._live = Live(
                    get_renderable=self.shown, console=self._console, refresh_per_second=8, transient=True
                )
                self._live.start()
            else:
                self._printer = _Printer(self.print, self._interval)
                self._printer.start()

    def exit_pass_ctx(self) -> None:
        """Stop the display with the last context; without a terminal, print a final line."""
        with self._lock:
            self._entered -= 1
            if self._entered:
                return
            live, self._live = self._live, None
            printer, self._printer = self._printer, None
        if live is not None:
            live.stop()
        if printer is not None:
            printer.stop()
            self.print()

    def handle(self, event: Event, subject: object) -> None:
        """Count the passes and functions that start and end."""
        self.activity.handle(event)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        self.activity.begin(remote_run())
        return _CountingTwin

    def merge_records(self, records: Any) -> None:
        """Add what a twin has counted, and count its module as done."""
        # The outermost pass is counted here, too.
        self.activity.add(replace(records, passes_done=records.passes_done - records.modules_done))
        self.activity.end(remote_run(), failed=records.modules_failed > 0)

    def shown(self) -> RenderableType:
        """Return the current display for a terminal."""
        counts = self.activity.counts()
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self.total, completed=counts.modules_done, width=30, pulse=self.total is None)
        row.add_row(bar, _clock(counts.seconds))
        return Group(row, Text(progress_text(counts, self.total), style="red" if counts.modules_failed else ""))

    def lines(self) -> list[str]:
        """Return the lines that are printed without a terminal."""
        return [progress_text(self.activity.counts(), self.total)]

    def print(self) -> None:
        """Print the lines."""
        self._console.print("\n".join(self.lines()), markup=False, highlight=False, soft_wrap=True)


@pass_instrument
class _CountingTwin(EventInstrument):
    """Counts the passes and functions of a module in a worker."""

    def __init__(self) -> None:
        super().__init__(_COUNTED, _COUNTED)
        self._activity = Activity()

    def handle(self, event: Event, subject: object) -> None:
        self._activity.handle(event)

    def worker_records(self) -> ActiveCounts:
        """Return the counts, for `merge_records` of the original."""
        return self._activity.counts()


class _Printer(threading.Thread):
    """Prints at a fixed interval, from a thread of its own, so also while passes wait."""

    def __init__(self, report: Callable[[], None], interval: float) -> None:
        super().__init__(name="apass progress", daemon=True)
        self._report = report
        self._interval = interval
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._interval):
            self._report()

    def stop(self) -> None:
        """Stop printing, and wait for the thread."""
        self._over.set()
        self.join()


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('s') else 's'}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
