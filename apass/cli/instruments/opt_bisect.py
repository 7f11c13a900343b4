"""`--opt-bisect-limit` and `--opt-bisect`: run only some of the passes, by their numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.instruments import BisectInstrument, BisectStep, parse_intervals

__all__ = ["BisectingOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectingOptions:
    """What the command line says of bisecting by hand."""

    opt_bisect_limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=-1,
            help="Run only the first N passes on each model; -1 numbers all.",
            rich_help_panel=PANEL,
        ),
    ] = None
    """How many passes run on each model."""
    opt_bisect: Annotated[
        str | None,
        typer.Option(metavar="3-7,9", help="Run only the passes of these numbers.", rich_help_panel=PANEL),
    ] = None
    """The numbers of those that run."""

    def watch(self, run: Run) -> Watch | None:
        """Return what leaves passes out, if it is asked for.

        Raises:
            InputError: if both options are given, or the numbers are none.

        """
        if self.opt_bisect_limit is not None and self.opt_bisect is not None:
            raise InputError("--opt-bisect-limit and --opt-bisect exclude each other")
        if self.opt_bisect_limit is not None:
            return _Bisecting(BisectInstrument(self.opt_bisect_limit, report=_show))
        if self.opt_bisect is None:
            return None
        try:
            return _Bisecting(BisectInstrument(intervals=parse_intervals(self.opt_bisect), report=_show))
        except ValueError as error:
            raise InputError(f"--opt-bisect: {error}") from None


class _Bisecting(Watch):
    def __init__(self, instrument: BisectInstrument) -> None:
        self._instrument = instrument

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)


def _show(step: BisectStep) -> None:
    typer.echo(str(step), err=True)
