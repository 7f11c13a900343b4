"""`LiveViewInstrument`: shows which passes run, which wait, and for what."""

from collections.abc import Callable, Sequence
from typing import Final

from apass.core.instrument import pass_instrument
from apass.core.run import Run
from apass.errors import MissingExtraError
from apass.instruments.progress import ProgressInstrument
from apass.instruments.support.activity import ActiveRun
from apass.util.printable import printable

try:
    from rich.console import Console, Group, RenderableType
    from rich.text import Text

    from apass.instruments.support.table_layout import Column, fitted_table, keep_end, keep_ends
except ModuleNotFoundError as _error:
    raise MissingExtraError(f"the live view needs rich ({_error}): pip install 'apass[cli]'") from _error

__all__ = ["LiveViewInstrument", "waiting_text"]

_SOON: Final = 0.25
"""Seconds without a step before a pass counts as waiting: about two frames of the display."""
_FEWEST: Final = 3
"""Minimum number of rows on a terminal, even a small one."""
_PASS_WIDTH: Final = 12
_FUNCTION_WIDTH: Final = 8
_STATE_WIDTH: Final = 24
"""Widths to which the cells of a column are shortened before it is dropped; the last has room for a reason."""
_LINES: Final = 5
"""Number of rows that are printed without a terminal."""


def waiting_text(active: ActiveRun) -> str:
    """Return `runs`, or for how long and for what a pass or a body waits."""
    if active.waiting is None or (active.waiting < _SOON and not active.waits_for):
        return "runs"
    reason = f" for {', then '.join(active.waits_for)}" if active.waits_for else ""
    return f"waits {active.waiting:.1f} s{printable(reason)}"


@pass_instrument
class LiveViewInstrument(ProgressInstrument):
    """Shows progress, and below it each running pass and function and its wait.

    The upper part is that of `ProgressInstrument`. The longest wait comes first. The reason of a wait is known if the
    code uses `apass.waiting_for`, as the services of `apass.external` do. A pass that waits for its inner passes or its
    functions is not listed, but these are. Without a terminal, the first few rows are printed every `interval` seconds.

    Parameters:
        total: the number of modules, if it is known.
        console: the console to write to; standard error by default.
        interval: seconds between two reports without a terminal.

    """

    def __init__(self, total: int | None = None, *, console: Console | None = None, interval: float = 5.0) -> None:
        super().__init__(total, console=console, interval=interval, kinds=("started", "finished", "failed", "waiting"))

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        # The twin counts only, because its passes cannot be shown while they run.
        return super().for_worker()

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Record that a pass yields to the event loop."""
        self.activity.step(run, start, end)

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Record that a function body yields to the event loop."""
        self.activity.step(run, start, end)

    def shown(self) -> RenderableType:
        """Return the current display for a terminal."""
        runs = self.activity.running()
        head, size = super().shown(), self._console.size
        # The table has four lines besides its rows, and the "more" line below it is the fifth.
        above = len(self._console.render_lines(head, pad=False))
        room = max(_FEWEST, size.height - above - 5)
        parts = [head, _table(runs[:room], size.width)]
        if len(runs) > room:
            parts.append(Text(f"and {len(runs) - room} more", style="dim"))
        return Group(*parts)

    def lines(self) -> list[str]:
        """Return the lines that are printed without a terminal."""
        runs = self.activity.running()
        shown = [f"  {_label(active.run)}: {waiting_text(active)}" for active in runs[:_LINES]]
        more = [f"  and {len(runs) - _LINES} more"] if len(runs) > _LINES else []
        return [*super().lines(), *shown, *more]


def _label(run: Run) -> str:
    module = "" if run.module is None else f"{run.module}: "
    return printable(module + "/".join(run.path) + ("" if run.function is None else f"@{run.function}"))


def _table(rows: Sequence[ActiveRun], width: int) -> Text:
    """Return rows as a table, which has fewer columns if it is narrow."""
    states = [waiting_text(active) for active in rows]
    paths = [printable("/".join(active.run.path)) for active in rows]
    functions = [printable(active.run.function or "") for active in rows]
    modules = [printable(active.run.module or "") for active in rows]
    module = Column(title="module", cells=modules, shorten=keep_ends)
    columns = [
        # The end of a path is the most specific part.
        Column(title="pass", cells=paths, smallest=_PASS_WIDTH, shorten=keep_end),
        Column(title="function", cells=functions, smallest=_FUNCTION_WIDTH, shorten=keep_end),
        Column(
            title="now",
            cells=states,
            smallest=_STATE_WIDTH,
            style=lambda row: "green" if states[row] == "runs" else "yellow",
        ),
    ]
    if any(modules):
        return fitted_table(module, columns, width, drop=("function", "now", "pass"))
    return fitted_table(columns[0], columns[1:], width, drop=("function", "now"))
