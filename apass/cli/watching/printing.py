"""`--print-ir-before`, `--print-ir-after`, `--print-changed`: the IR, or what changed in it, on standard output."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from apass.cli.settings import check_pass_names
from apass.cli.watching.watch import PANEL, Run, Watch
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

        """
        before, after = self.print_ir_before or (), self.print_ir_after or ()
        if not (before or after or self.print_changed):
            return None
        for option, names in (("--print-ir-before", before), ("--print-ir-after", after)):
            check_pass_names(option, set(names) - {_ALL}, run.plan.passes.values())
        plain = [one for one in self.filter_passes or () if not set("*?[") & set(one)]
        check_pass_names("--filter-passes", plain, run.plan.passes.values())
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


def _names(given: Sequence[str]) -> Sequence[str] | None:
    return None if _ALL in given else given
