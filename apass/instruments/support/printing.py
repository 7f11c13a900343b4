"""`PrintsText` and `PrintsChanges`: bases of instruments that print; and headings."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from io import StringIO
from typing import Any, Final, TextIO

from apass.core.named_callables import value_text
from apass.core.pass_info import PassInfo
from apass.core.run import current_module_name, current_run
from apass.instruments.support.change_tracker import ChangeTracker
from apass.instruments.support.selection import Selection
from apass.util.printable import printable
from apass.util.text import shorten

__all__ = ["PrintsChanges", "PrintsText", "module_suffix", "pass_title"]

_TITLE_LIMIT: Final = 120
"""Maximum number of characters of the options in a heading."""


def pass_title(info: PassInfo) -> str:
    """Return the name of a pass and its options, as in the text of a pipeline.

    An example is `Tune{size=8}`. Options that are too long are cut. A value that has no text is shown as dots. In a
    hook, `info` is the argument of the hook.
    """
    run = current_run()
    pass_: Any = None if run is None or run.info is not info else run.pass_
    spec: tuple[str, Mapping[str, object]] | None = getattr(pass_, "spec", None)
    if spec is None:
        return printable(info.name)
    # A combinator has these as options. The heading shows the name already.
    shown = {"name": info.name, "opt_level": info.opt_level, "required": list(info.required)}
    options = [
        f"{key}={_option_text(value)}" for key, value in spec[1].items() if key not in shown or shown[key] != value
    ]
    return printable(f"{info.name}{{{shorten(','.join(options), _TITLE_LIMIT)}}}" if options else info.name)


def module_suffix() -> str:
    """Return the name of the current module for the end of a heading; "" without one."""
    name = current_module_name()
    return "" if name is None else f" (module {name!r})"


def _option_text(value: object) -> str:
    try:
        return value_text(value)
    except TypeError:
        return "..."


class _Memory(StringIO):
    """A text in memory that will be printed elsewhere."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def __reduce__(self) -> tuple[type, tuple[bool]]:
        return type(self), (self._is_terminal,)

    def isatty(self) -> bool:
        """Return whether the text will be printed on a terminal, so that it needs escapes."""
        return self._is_terminal


class PrintsText:
    """An instrument that prints to a file.

    In a worker, its twin prints to memory. The original prints that text as a whole, when the module is finished.
    """

    _file: TextIO | None

    def memory(self) -> TextIO:
        """Return the file of the twin, which is a terminal if that of the original is."""
        return _Memory(self.output.isatty())

    @property
    def output(self) -> TextIO:
        """The file, or the current standard output."""
        return sys.stdout if self._file is None else self._file

    def worker_records(self) -> str:
        """Return the text, for `merge_records` of the original."""
        return self._file.getvalue() if isinstance(self._file, StringIO) else ""

    def merge_records(self, records: str) -> None:
        """Print the text of a twin."""
        if records:
            self.output.write(records)


class PrintsChanges(PrintsText, ABC):
    """An instrument that prints after each selected pass that made a change itself.

    Parameters:
        names: names of passes; None selects all.
        file: the output file; None is the `sys.stdout` at the time of printing.
        modules: names of modules; None selects all.
        functions: names of functions; None selects all.

    """

    def __init__(
        self,
        names: Iterable[str] | None,
        file: TextIO | None,
        modules: Iterable[str] | None,
        functions: Iterable[str] | None,
    ) -> None:
        self._selection = Selection.of(names, modules, functions)
        self._file = file
        self._tracker = ChangeTracker()

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module."""
        run = current_run()
        if run is not None:
            self._tracker.begin(run, mod)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the change of a pass, if it made one."""
        run = current_run()
        if run is None:
            return
        before = self._tracker.end(run, mod)
        if before is not mod and self._selection.covers(info):
            await self._print_change(before, mod, info)

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the module."""
        run = current_run()
        if run is not None:
            self._tracker.fail(run)

    @abstractmethod
    async def _print_change(self, before: Any, after: Any, info: PassInfo) -> None:
        """Print what a pass made of the module `before`."""
