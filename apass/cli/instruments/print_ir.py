"""`--print-ir-before`, `--print-ir-after`, `--print-changed`: the IR, or what changed in it, on standard output."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from apass.cli.inputs import InputError
from apass.cli.instruments.base import PANEL, Run, Watch
from apass.cli.settings import check_pass_names
from apass.errors import did_you_mean
from apass.instruments import PrintChanged, PrintIRAfter, PrintIRBefore

__all__ = ["PrintingOptions"]

_ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintingOptions:
    """What the command line says of printing."""

    print_ir_before: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|all", help="Print what this pass, or every one, gets.", rich_help_panel=PANEL),
    ] = None
    """Passes before which to print."""
    print_ir_after: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|all", help="Print what this pass, or every one, returns.", rich_help_panel=PANEL),
    ] = None
    """Passes after which to print."""
    print_changed: Annotated[
        bool, typer.Option("--print-changed", help="Print what each pass changed, as a diff.", rich_help_panel=PANEL)
    ] = False
    """Whether to print what changed."""
    filter_passes: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Print changes of this pass only; * may be in it.", rich_help_panel=PANEL),
    ] = None
    """The passes whose changes to print."""
    filter_modules: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Print for this model only; * may be in it.", rich_help_panel=PANEL),
    ] = None
    """The models for which to print."""
    filter_functions: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Print this function only; * may be in it.", rich_help_panel=PANEL),
    ] = None
    """The functions to print."""

    def watch(self, run: Run) -> Watch | None:
        """Return what prints, if it is asked for.

        Raises:
            UnknownPassError: if a name is that of no pass.
            InputError: if a name is that of no model, or a filter has nothing to filter.

        """
        before, after = self.print_ir_before or (), self.print_ir_after or ()
        if self.filter_passes and not self.print_changed:
            raise InputError(
                "--filter-passes needs --print-changed; --print-ir-before and -after name passes themselves"
            )
        if not (before or after or self.print_changed):
            for option, given in (("modules", self.filter_modules), ("functions", self.filter_functions)):
                if given:
                    raise InputError(f"--filter-{option} needs --print-ir-before, --print-ir-after or --print-changed")
            return None
        for option, names in (("--print-ir-before", before), ("--print-ir-after", after)):
            check_pass_names(option, set(names) - {_ALL}, run.plan.passes.values())
        check_pass_names("--filter-passes", _plain(self.filter_passes), run.plan.passes.values())
        models = [job.name for job in run.plan.jobs]
        for name in _plain(self.filter_modules):
            if name not in models:
                near = did_you_mean(name, models, listing="; there are ")
                raise InputError(f"--filter-modules names {name!r}, which is no model of this run{near}")
        return _Printing(self, before, after)


class _Printing(Watch):
    def __init__(self, options: PrintingOptions, before: Sequence[str], after: Sequence[str]) -> None:
        self._options = options
        self._before = before
        self._after = after

    def instruments(self) -> Iterable[object]:
        modules, functions = self._options.filter_modules, self._options.filter_functions
        if self._before:
            yield PrintIRBefore(_names(self._before), modules=modules, functions=functions)
        if self._after:
            yield PrintIRAfter(_names(self._after), modules=modules, functions=functions)
        if self._options.print_changed:
            yield PrintChanged(self._options.filter_passes, modules=modules, functions=functions)


def _plain(names: Sequence[str] | None) -> Sequence[str]:
    """Return the names in which nothing stands for others."""
    return [one for one in names or () if not set("*?[") & set(one)]


def _names(given: Sequence[str]) -> Sequence[str] | None:
    return None if _ALL in given else given
