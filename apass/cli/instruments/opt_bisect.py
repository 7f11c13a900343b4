"""`--opt-bisect-limit` and `--opt-bisect`: run only the passes with given numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import REPRODUCE
from apass.errors import InputError

__all__ = ["BisectingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectingOptions:
    """The options of manual bisection."""

    PANEL: ClassVar[str] = REPRODUCE

    opt_bisect_limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=-1, help="Run only the first N passes on each model; -1 runs and numbers all."),
    ] = None
    opt_bisect: Annotated[str | None, typer.Option(metavar="3-7,9", help="Run only the passes with these numbers.")] = (
        None
    )

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that skips passes, or None if it is not enabled.

        Raises:
            InputError: if both options are set, or the intervals do not parse.

        """
        if self.opt_bisect_limit is not None and self.opt_bisect is not None:
            raise InputError("--opt-bisect-limit and --opt-bisect cannot be used together")
        if self.opt_bisect_limit is not None:
            return _Bisecting(instruments.BisectInstrument(self.opt_bisect_limit, report=_show))
        if self.opt_bisect is None:
            return None
        try:
            return _Bisecting(
                instruments.BisectInstrument(intervals=instruments.parse_intervals(self.opt_bisect), report=_show)
            )
        except ValueError as error:
            raise InputError(f"--opt-bisect: {error}") from None


class _Bisecting(RunObserver):
    def __init__(self, instrument: "instruments.BisectInstrument") -> None:
        self._instrument = instrument

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)


def _show(step: "instruments.BisectStep") -> None:
    typer.echo(str(step), err=True)
