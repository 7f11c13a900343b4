"""`--remarks`: what the passes had to say, in LLVM's YAML."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.cli.output_files import check_file, write_file
from apass.instruments import RemarksInstrument

__all__ = ["RemarksOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarksOptions:
    """What the command line says of remarks."""

    remarks: Annotated[
        Path | None,
        typer.Option("--remarks", metavar="FILE", help="Write what passes had to say, as YAML.", rich_help_panel=PANEL),
    ] = None
    """Where to write them."""
    remarks_filter: Annotated[
        str | None,
        typer.Option(
            "--remarks-filter", metavar="REGEX", help="Only remarks of passes named so.", rich_help_panel=PANEL
        ),
    ] = None
    """Which passes to listen to."""

    def watch(self, run: Run) -> Watch | None:
        """Return what listens, if it is asked for.

        Raises:
            InputError: if there is a filter and no file, the filter is no regular expression, or the file cannot be
                written.

        """
        if self.remarks is None:
            if self.remarks_filter is not None:
                raise InputError("--remarks-filter needs --remarks FILE, where to write what it lets through")
            return None
        check_file("--remarks", self.remarks)
        try:
            return _Remarks(RemarksInstrument(self.remarks_filter), self.remarks)
        except ValueError as error:
            raise InputError(f"--remarks-filter: {error}") from None


class _Remarks(Watch):
    def __init__(self, instrument: RemarksInstrument, path: Path) -> None:
        self._instrument = instrument
        self._path = path

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        write_file("--remarks", self._path, self._instrument.render())
        dropped = f", {self._instrument.dropped} more were dropped" if self._instrument.dropped else ""
        show(f"{len(self._instrument.remarks)} remarks in {self._path}{dropped}")
