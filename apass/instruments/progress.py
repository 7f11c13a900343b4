"""`ProgressInstrument`: how far a run has come, while it runs: a bar on a terminal, a line now and then elsewhere."""

from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import Run, current_run
from apass.instruments.support.activity import Activity, Counts

__all__ = ["ProgressInstrument", "progress_text"]


def progress_text(counts: Counts, total: int | None = None) -> str:
    """Return in a line how far a run has come.

    >>> progress_text(Counts(modules=2, modules_done=6, modules_failed=1, passes=4, functions=9, seconds=3), total=8)
    '6 of 8 modules, 1 failed; at work: 2 modules, 4 passes, 9 functions; 2.0 modules/s'
    """
    done = (
        _many(counts.modules_done, "module") if total is None else f"{counts.modules_done} of {_many(total, 'module')}"
    )
    failed = f", {counts.modules_failed} failed" if counts.modules_failed else ""
    at_work = [_many(counts.modules, "module"), _many(counts.passes, "pass"), _many(counts.functions, "function")]
    return f"{done}{failed}; at work: {', '.join(at_work)}; {counts.modules_per_second:.1f} modules/s"


@pass_instrument
class ProgressInstrument:
    """Shows how many modules are done, at work and failed, with their passes and functions, while a context is entered.

    On a terminal it is a bar that a thread of its own redraws; where there is none, a line each `interval` seconds, and
    one at the end. Passes without a module name count as modules of their own. Memory holds what is at work.

    Parameters:
        total: how many modules there will be, if that is known.
        console: where to (standard error).
        interval: seconds between two lines where there is no terminal.

    """

    def __init__(self, total: int | None = None, *, console: Console | None = None, interval: float = 5.0) -> None:
        self.activity = Activity()
        """What is at work, and the counts."""
        self.total = total
        """How many modules there will be; None if nobody knows."""
        self._console = Console(stderr=True) if console is None else console
        self._interval = interval
        self._live: Live | None = None
        self._printer: _Printer | None = None
        self._entered = 0
        self._lock = Lock()

    def enter_pass_ctx(self) -> None:
        """Begin to show."""
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
        """End to show, with a line on what came of it where there is no terminal."""
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

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Count a pass as at work."""
        self._tell(current_run(), self.activity.begin)

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Count it as done."""
        self._tell(current_run(), self._end)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Count it as failed."""
        self._tell(current_run(), self._fail)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Count a function as at work."""
        self._tell(run, self.activity.begin)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Count it as done."""
        self._tell(run, self._end)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Count it as failed."""
        self._tell(run, self._fail)

    def shown(self) -> RenderableType:
        """Return what a terminal shows now."""
        counts = self.activity.counts()
        row = Table.grid(padding=(0, 1))
        bar = ProgressBar(total=self.total, completed=counts.modules_done, width=30, pulse=self.total is None)
        row.add_row(bar, _clock(counts.seconds))
        return Group(row, Text(progress_text(counts, self.total), style="red" if counts.modules_failed else ""))

    def lines(self) -> list[str]:
        """Return what is printed where there is no terminal."""
        return [progress_text(self.activity.counts(), self.total)]

    def print(self) -> None:
        """Print the lines."""
        self._console.print("\n".join(self.lines()), markup=False, highlight=False, soft_wrap=True)

    def _tell(self, run: Run | None, tell: Callable[[Run], None]) -> None:
        if run is not None:
            tell(run)

    def _end(self, run: Run) -> None:
        self.activity.end(run, failed=False)

    def _fail(self, run: Run) -> None:
        self.activity.end(run, failed=True)


class _Printer(Thread):
    """Prints now and then, also when nothing happens."""

    def __init__(self, report: Callable[[], None], interval: float) -> None:
        super().__init__(name="apass progress", daemon=True)
        self._report = report
        self._interval = interval
        self._over = Event()

    def run(self) -> None:
        while not self._over.wait(self._interval):
            self._report()

    def stop(self) -> None:
        """Print no more."""
        self._over.set()
        self.join()


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}{'es' if what.endswith('s') else 's'}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
