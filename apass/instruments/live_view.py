"""`LiveViewInstrument`: which passes run and which wait, since when and for what; for whoever watches a run."""

from collections.abc import Iterable
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from apass.core.instrument import pass_instrument
from apass.core.run import Run
from apass.instruments.progress import ProgressInstrument
from apass.instruments.support.activity import AtWork

__all__ = ["LiveViewInstrument", "waiting_text"]

_SOON: Final = 0.25
"""Seconds without the loop before a pass counts as waiting: about two pictures."""
_FEWEST: Final = 3
"""The rows that a terminal shows however low it is."""
_LINES: Final = 5
"""The rows that are printed where there is no terminal."""


def waiting_text(one: AtWork) -> str:
    """Return in a few words what a pass or a body does now: `runs`, or how long it has waited, and for what."""
    if one.waiting is None or (one.waiting < _SOON and not one.waits_for):
        return "runs"
    reason = f" for {', then '.join(one.waits_for)}" if one.waits_for else ""
    return f"waits {one.waiting:.1f} s{reason}"


@pass_instrument
class LiveViewInstrument(ProgressInstrument):
    """Shows, below what `ProgressInstrument` does, each pass and function at work: since when it waits, and for what.

    Those that have waited longest stand first. What they wait for is known where they say so by `apass.waiting_for`, as
    services of `apass.external` do. A pass that waits for the passes which it calls, or for its functions, is not
    listed, but these are. Where there is no terminal, the first few are printed each `interval` seconds.

    Parameters:
        total: how many modules there will be, if that is known.
        console: where to (standard error).
        interval: seconds between two reports where there is no terminal.

    """

    def __init__(self, total: int | None = None, *, console: Console | None = None, interval: float = 5.0) -> None:
        super().__init__(total, console=console, interval=interval)

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Note that a pass waits from now on."""
        self.activity.step(run, start, end)

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Note that a function waits from now on."""
        self.activity.step(run, start, end)

    def on_wait(self, run: Run | None, what: str, is_over: bool) -> None:
        """Note what for."""
        self.activity.wait(run, what, is_over)

    def shown(self) -> RenderableType:
        """Return what a terminal shows now."""
        at_work = self.activity.at_work()
        head, size = super().shown(), self._console.size
        # The table has four lines more than rows, and the line about the rest comes below it.
        above = len(self._console.render_lines(head, pad=False))
        room = max(_FEWEST, size.height - above - 5)
        parts = [head, _table(at_work[:room], size.width)]
        if len(at_work) > room:
            parts.append(Text(f"and {len(at_work) - room} more", style="dim"))
        return Group(*parts)

    def lines(self) -> list[str]:
        """Return what is printed where there is no terminal."""
        at_work = self.activity.at_work()
        shown = [f"  {_where(one.run)}: {waiting_text(one)}" for one in at_work[:_LINES]]
        more = [f"  and {len(at_work) - _LINES} more"] if len(at_work) > _LINES else []
        return [*super().lines(), *shown, *more]


def _where(run: Run) -> str:
    module = "" if run.module is None else f"{run.module}: "
    return module + "/".join(run.path) + ("" if run.function is None else f"@{run.function}")


def _table(rows: Iterable[AtWork], width: int) -> Table:
    """Return rows as a table in which nothing is so long that there is no room for what is waited for."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("module", "pass", "function", "now"):
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    for one in rows:
        run, state = one.run, waiting_text(one)
        where = (_end(run.module, width // 5), _end("/".join(run.path), width // 4), _end(run.function, width // 8))
        table.add_row(*map(Text, where), Text(state, style="green" if state == "runs" else "yellow"))
    return table


def _end(text: str | None, width: int) -> str:
    """Return the end of a name, which tells most."""
    return text or "" if text is None or len(text) <= width else f"\N{HORIZONTAL ELLIPSIS}{text[1 - width :]}"
