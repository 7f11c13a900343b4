"""`--timing`: the times of passes and modules, and the slowest functions."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, ClassVar, Final

import typer

from apass import instruments
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.options import FlagValue
from apass.cli.output_files import check_file, write_file
from apass.cli.panels import MEASURE
from apass.errors import InputError

__all__ = ["TimingForm", "TimingOptions"]

Show = Callable[[str], None]
"""Prints text below the table of results."""

_FUNCTIONS: Final = 10
"""Default number of functions in a list and in JSON."""
_MODULES: Final = 10
"""Number of modules in a list on the terminal. A file gets all."""


class TimingForm(Enum):
    """The output format of times."""

    TREE = "tree"
    """The pipeline, summed over modules."""
    LIST = "list"
    """Lists of passes, modules and functions, slowest first."""
    JSON = "json"
    """All times as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """The options of timing."""

    PANEL: ClassVar[str] = MEASURE

    timing: Annotated[
        TimingForm | None,
        typer.Option(
            "--timing",
            metavar="[=FORM]",
            help="Show the time of each pass: tree (default), list or json; "
            "on standard error with --output-format json.",
        ),
        FlagValue("--timing", "tree"),
    ] = None
    timing_output: Annotated[
        Path | None, typer.Option("--timing-output", metavar="FILE", help="Write the times to this file.")
    ] = None
    timing_functions: Annotated[
        int | None,
        typer.Option(
            "--timing-functions",
            metavar="N",
            min=0,
            help=rf"Show the N slowest functions \[{_FUNCTIONS} in a list and in JSON].",
        ),
    ] = None

    @property
    def prints_data(self) -> bool:
        """Whether the times are printed as JSON."""
        return self.timing is TimingForm.JSON and self.timing_output is None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that times the run, or None if it is not enabled.

        Raises:
            InputError: if `--timing` is missing, or the file cannot be written.

        """
        if self.timing is None:
            for option, value in (("output", self.timing_output), ("functions", self.timing_functions)):
                if value is not None:
                    raise InputError(f"--timing-{option} needs --timing, --timing=list or --timing=json")
            return None
        if self.timing_output is not None:
            check_file("--timing-output", self.timing_output)
        output = _Output(self.timing, self.timing_output)
        functions = self.timing_functions
        if functions is None:
            functions = 0 if self.timing is TimingForm.TREE else _FUNCTIONS
        return _Timing(output, functions)


@dataclass(frozen=True, slots=True)
class _Output:
    """Writes times to a file or to the terminal."""

    form: TimingForm
    """The output format."""
    path: Path | None
    """The file; None for the terminal."""

    def write(self, text: str, show: Show) -> None:
        if self.path is None:
            show(text)
        else:
            write_file("--timing-output", self.path, text + "\n")

    def write_json(
        self, profile: Sequence["instruments.PassTiming"], slowest: Sequence["instruments.FunctionTiming"], show: Show
    ) -> None:
        values = instruments.timings_as_json(profile, slowest)
        self.write(json.dumps(values) if self.path is None else json.dumps(values, indent=1), show)

    def modules(self, profile: Iterable["instruments.PassTiming"]) -> str:
        """Return the list of modules, slowest first."""
        modules = instruments.timings_by_module(profile)
        shown = modules[:_MODULES] if self.path is None else modules
        omitted = len(modules) - len(shown)
        return instruments.render_modules(shown) + (
            f"\nand {omitted} more modules; use --timing-output to get all" if omitted else ""
        )


class _Timing(RunObserver):
    def __init__(self, output: _Output, functions: int) -> None:
        self._output = output
        self._timer = instruments.PassTimingInstrument()
        self._functions = instruments.FunctionTimingInstrument(top=functions) if functions else None

    def instruments(self) -> Iterable[object]:
        return (self._timer,) if self._functions is None else (self._timer, self._functions)

    def finish(self, show: Show) -> None:
        slowest = () if self._functions is None else self._functions.slowest()
        if self._output.form is TimingForm.JSON:
            self._output.write_json(self._timer.profile(), slowest, show)
            return
        parts = [self._timer.render(merge=True)] if self._output.form is TimingForm.TREE else self._lists()
        if self._functions is not None and slowest:
            parts.append(self._functions.render())
        self._output.write("\n\n".join(parts), show)

    def _lists(self) -> list[str]:
        profile = self._timer.profile()
        return [instruments.render_passes(instruments.timings_by_pass(profile)), self._output.modules(profile)]
