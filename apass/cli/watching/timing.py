"""`--timing`: how long each pass took."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from apass.cli.watching.watch import PANEL, Run, Watch
from apass.instruments import PassTimingInstrument

__all__ = ["TimingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """What the command line says of timing."""

    timing: Annotated[
        bool, typer.Option("--timing", help="Show the time that each pass took.", rich_help_panel=PANEL)
    ] = False
    """Whether to show times."""

    def watch(self, run: Run) -> Watch | None:
        """Return what times the run, if it is asked for."""
        return _Timing() if self.timing else None


class _Timing(Watch):
    def __init__(self) -> None:
        self._timer = PassTimingInstrument()

    def instruments(self) -> Iterable[object]:
        return (self._timer,)

    def finish(self, show: Callable[[str], None]) -> None:
        show(self._timer.render(merge=True))
