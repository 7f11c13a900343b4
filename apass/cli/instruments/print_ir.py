"""`--print-ir-*`, `--print-changed`, `--exec-on-change`: the IR as text."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final

import typer

from apass import instruments
from apass.cli.completion import complete_pass
from apass.cli.inputs import split_command
from apass.cli.instruments.base import RunObserver, RunPlan
from apass.cli.panels import PRINT
from apass.cli.settings import check_pass_names
from apass.errors import InputError, did_you_mean

__all__ = ["PrintingOptions"]

_ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintingOptions:
    """The options of printing."""

    PANEL: ClassVar[str] = PRINT

    print_ir_before: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|all", autocompletion=complete_pass, help="Print the IR before this pass, or before all."
        ),
    ] = None
    print_ir_after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|all", autocompletion=complete_pass, help="Print the IR after this pass, or after all."
        ),
    ] = None
    print_ir_on_failure: Annotated[
        bool, typer.Option("--print-ir-on-failure", help="Print the input of each pass that fails.")
    ] = False
    print_changed: Annotated[
        bool, typer.Option("--print-changed", help="Print the changes of each pass as a diff.")
    ] = False
    exec_on_change: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Run this after each change, such as 'diff -u {before} {after}', and print its output.",
        ),
    ] = None
    filter_passes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", autocompletion=complete_pass, help="Show changes of this pass only; * is a wildcard."
        ),
    ] = None
    filter_modules: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Print for this model only; * is a wildcard.")
    ] = None
    filter_functions: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Print this function only; * is a wildcard.")
    ] = None

    def create_observer(self, run: RunPlan) -> RunObserver | None:
        """Return the observer that prints, or None if it is not enabled.

        Raises:
            UnknownPassError: if no pass has a given name.
            InputError: if no model has a given name, a filter is set without a printing option, or the command cannot
                be run.

        """
        before, after = self.print_ir_before or (), self.print_ir_after or ()
        shows_changes = self.print_changed or self.exec_on_change is not None
        if self.filter_passes and not shows_changes:
            raise InputError(
                "--filter-passes needs --print-changed or --exec-on-change; "
                "--print-ir-before and --print-ir-after take names of passes"
            )
        if not (before or after or shows_changes or self.print_ir_on_failure):
            for option, patterns in (("modules", self.filter_modules), ("functions", self.filter_functions)):
                if patterns:
                    options = (
                        "--print-ir-before, --print-ir-after, --print-ir-on-failure, --print-changed "
                        "or --exec-on-change"
                    )
                    raise InputError(f"--filter-{option} needs {options}")
            return None
        for option, names in (("--print-ir-before", before), ("--print-ir-after", after)):
            check_pass_names(option, set(names) - {_ALL}, run.plan.passes.values())
        check_pass_names("--filter-passes", _plain(self.filter_passes), run.plan.passes.values())
        models = [job.name for job in run.plan.jobs]
        for name in _plain(self.filter_modules):
            if name not in models:
                hint = did_you_mean(name, models, listing="expected one of ")
                raise InputError(f"--filter-modules: no model of this run is named {name!r}{hint}")
        return _Printing(
            self, before, after, None if self.exec_on_change is None else self._command(self.exec_on_change)
        )

    def _command(self, text: str) -> "instruments.ExecOnChange":
        """Return the instrument that runs a command."""
        words = split_command("--exec-on-change", text, "diff -u {before} {after}")
        try:
            return instruments.ExecOnChange(
                words, self.filter_passes, modules=self.filter_modules, functions=self.filter_functions
            )
        except FileNotFoundError as error:
            raise InputError(f"--exec-on-change: {error}") from None


class _Printing(RunObserver):
    def __init__(
        self,
        options: PrintingOptions,
        before: Sequence[str],
        after: Sequence[str],
        command: "instruments.ExecOnChange | None",
    ) -> None:
        self._options = options
        self._before = before
        self._after = after
        self._command = command

    def instruments(self) -> Iterable[object]:
        modules, functions = self._options.filter_modules, self._options.filter_functions
        if self._before:
            yield instruments.PrintIRBefore(_names(self._before), modules=modules, functions=functions)
        if self._after:
            yield instruments.PrintIRAfter(_names(self._after), modules=modules, functions=functions)
        if self._options.print_ir_on_failure:
            yield instruments.PrintIRFailed(modules=modules, functions=functions)
        if self._options.print_changed:
            yield instruments.PrintChanged(self._options.filter_passes, modules=modules, functions=functions)
        if self._command is not None:
            yield self._command


def _plain(names: Sequence[str] | None) -> Sequence[str]:
    """Return the names without wildcards, which can be checked."""
    return [name for name in names or () if not set("*?[") & set(name)]


def _names(names: Sequence[str]) -> Sequence[str] | None:
    return None if _ALL in names else names
