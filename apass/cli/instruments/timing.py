"""`--timing`: how long each pass took, each module, and the slowest functions."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import typer

from apass.cli.alone import Alone
from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.cli.instruments.module_timing import ELSEWHERE, ModuleTiming
from apass.cli.output_files import check_file, write_file
from apass.instruments import (
    FunctionTimingInstrument,
    PassTimingInstrument,
    render_modules,
    render_passes,
    timings_as_json,
    timings_by_module,
    timings_by_pass,
)
from apass.instruments.timing.tables import FunctionTiming, PassTiming

__all__ = ["TimingForm", "TimingOptions"]

Show = Callable[[str], None]
"""Prints text below the table."""

_FUNCTIONS: Final = 10
"""How many functions a list shows where nothing is said."""
_MODULES: Final = 10
"""How many modules a list shows on the terminal; a file gets them all."""


class TimingForm(Enum):
    """How times are shown."""

    TREE = "tree"
    """The pipeline, summed over modules."""
    LIST = "list"
    """Lists of passes, of modules and of functions, the slowest first."""
    JSON = "json"
    """All of it, for programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingOptions:
    """What the command line says of timing."""

    timing: Annotated[
        TimingForm | None,
        typer.Option(
            "--timing",
            metavar="=FORM",
            help="Show the time that each pass took: as tree (if nothing is said), list or json.",
            rich_help_panel=PANEL,
        ),
        Alone("--timing", "tree"),
    ] = None
    """Whether to show times, and how."""
    timing_output: Annotated[
        Path | None,
        typer.Option("--timing-output", metavar="FILE", help="Write the times to a file.", rich_help_panel=PANEL),
    ] = None
    """Where to, if not on the terminal."""
    timing_functions: Annotated[
        int | None,
        typer.Option(
            "--timing-functions",
            metavar="N",
            min=0,
            help=rf"How many of the slowest functions to show \[{_FUNCTIONS} in a list and in JSON].",
            rich_help_panel=PANEL,
        ),
    ] = None
    """How many functions to show."""

    def watch(self, run: Run) -> Watch | None:
        """Return what times the run, if it is asked for.

        Raises:
            InputError: if a file or a number of functions is given without `--timing`, or the file is a folder, or
                functions are asked for that run elsewhere.

        """
        if self.timing is None:
            for option, given in (("output", self.timing_output), ("functions", self.timing_functions)):
                if given is not None:
                    raise InputError(f"--timing-{option} needs --timing, or --timing=list or --timing=json")
            return None
        if self.timing_output is not None:
            check_file("--timing-output", self.timing_output)
        output = _Output(self.timing, self.timing_output)
        functions = self.timing_functions
        if run.executor is not None:
            if functions:
                raise InputError(f"--timing-functions shows nothing here: {ELSEWHERE}")
            return ModuleTiming(run, output.whole_models)
        if functions is None:
            functions = 0 if self.timing is TimingForm.TREE else _FUNCTIONS
        return _Timing(output, functions)


@dataclass(frozen=True, slots=True)
class _Output:
    """How times are given out."""

    form: TimingForm
    """How they are shown."""
    path: Path | None
    """Where to, None for the terminal."""

    def give(self, text: str, show: Show) -> None:
        if self.path is None:
            show(text)
        else:
            write_file("--timing-output", self.path, text + "\n")

    def give_json(self, profile: Sequence[PassTiming], slowest: Sequence[FunctionTiming], show: Show) -> None:
        values = timings_as_json(profile, slowest)
        self.give(json.dumps(values) if self.path is None else json.dumps(values, indent=1), show)

    def modules(self, profile: Iterable[PassTiming]) -> str:
        """Return the list of modules, the slowest first."""
        modules = timings_by_module(profile)
        shown = modules[:_MODULES] if self.path is None else modules
        more = len(modules) - len(shown)
        return render_modules(shown) + (f"\nand {more} more modules; a file gets them all" if more else "")

    def whole_models(self, profile: Sequence[PassTiming], show: Show) -> None:
        """Give the times of models as such."""
        if self.form is TimingForm.JSON:
            self.give_json(profile, (), show)
        else:
            self.give(f"{self.modules(profile)}\n{ELSEWHERE}", show)


class _Timing(Watch):
    def __init__(self, output: _Output, functions: int) -> None:
        self._output = output
        self._timer = PassTimingInstrument()
        self._functions = FunctionTimingInstrument(top=functions) if functions else None

    def instruments(self) -> Iterable[object]:
        return (self._timer,) if self._functions is None else (self._timer, self._functions)

    def finish(self, show: Show) -> None:
        slowest = () if self._functions is None else self._functions.slowest()
        if self._output.form is TimingForm.JSON:
            self._output.give_json(self._timer.profile(), slowest, show)
            return
        parts = [self._timer.render(merge=True)] if self._output.form is TimingForm.TREE else self._lists()
        if self._functions is not None and slowest:
            parts.append(self._functions.render())
        self._output.give("\n\n".join(parts), show)

    def _lists(self) -> list[str]:
        profile = self._timer.profile()
        return [render_passes(timings_by_pass(profile)), self._output.modules(profile)]
