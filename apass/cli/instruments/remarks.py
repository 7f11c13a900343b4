"""`--remarks`: the remarks of the passes, in LLVM's YAML format."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from apass import instruments
from apass.cli.completion import completes
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.output_files import check_file, write_file
from apass.cli.panels import RECORD
from apass.core.remarks import RemarkKind
from apass.errors import InputError

__all__ = ["RemarksOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarksOptions:
    """The options of remarks."""

    PANEL: ClassVar[str] = RECORD

    remarks: Annotated[
        Path | None, typer.Option("--remarks", metavar="FILE", help="Write the remarks of passes as YAML.")
    ] = None
    remarks_filter: Annotated[
        str | None,
        typer.Option("--remarks-filter", metavar="REGEX", help="Write only remarks of passes that match this pattern."),
    ] = None
    remarks_kind: Annotated[
        list[str] | None,
        typer.Option(
            "--remarks-kind",
            autocompletion=completes(*(kind.value for kind in RemarkKind)),
            metavar="passed|missed|analysis",
            help="Write only remarks of this kind; may be repeated.",
        ),
    ] = None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that collects remarks, or None if it is not enabled.

        Raises:
            InputError: if a filter is set without a file, the filter is not a regular expression, or the file cannot
                be written.

        """
        if self.remarks is None:
            for option, value in (("--remarks-filter", self.remarks_filter), ("--remarks-kind", self.remarks_kind)):
                if value is not None:
                    raise InputError(f"{option} needs --remarks FILE")
            return None
        check_file("--remarks", self.remarks)
        try:
            return _Remarks(instruments.RemarksInstrument(self.remarks_filter, kinds=self.remarks_kind), self.remarks)
        except ValueError as error:
            option = "--remarks-kind" if "kind" in str(error) else "--remarks-filter"
            raise InputError(f"{option}: {error}") from None


class _Remarks(RunObserver):
    def __init__(self, instrument: "instruments.RemarksInstrument", path: Path) -> None:
        self._instrument = instrument
        self._path = path

    def instruments(self) -> Iterable[object]:
        return (self._instrument,)

    def finish(self, show: Callable[[str], None]) -> None:
        write_file("--remarks", self._path, self._instrument.render())
        dropped = f", {self._instrument.dropped} dropped" if self._instrument.dropped else ""
        show(f"{len(self._instrument.remarks)} remarks in {self._path}{dropped}")
