"""Instruments that print the IR before and after passes, each print in one piece; for looking at what passes do."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from apass.adapter import adapter_for
from apass.info import PassInfo
from apass.instrument import pass_instrument
from apass.run import current_module_name

__all__ = ["PassPrintingInstrument", "PrintAfterAll", "PrintBeforeAll", "PrintIRAfter", "PrintIRBefore"]


@pass_instrument
class PrintIRBefore:
    """Prints the module that each of the named passes gets.

    Parameters:
        names: the passes' names; None is all.
        file: where to; None is what `sys.stdout` is at the time.

    Raises:
        TypeError: if `names` is a string or holds something else than strings.

    >>> import apass
    >>> Halve = apass.module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> context = apass.PassContext(instruments=[PrintIRBefore(["Halve"]), PrintIRAfter(["Halve"])])
    >>> result = apass.run(apass.Sequential([Halve]), {"f": 8}, context=context)
    Print IR before: Halve
    f: 8
    <BLANKLINE>
    Print IR after: Halve
    f: 4
    <BLANKLINE>

    """

    def __init__(self, names: Iterable[str] | None = None, file: TextIO | None = None) -> None:
        self._names = _names("names", names)
        self._file = file

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module."""
        if self._names is None or info.name in self._names:
            _print(f"Print IR before: {info.name}", mod, self._file)


@pass_instrument
class PrintIRAfter:
    """Prints the module that each of the named passes returned; in all else as `PrintIRBefore`."""

    def __init__(self, names: Iterable[str] | None = None, file: TextIO | None = None) -> None:
        self._names = _names("names", names)
        self._file = file

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module."""
        if self._names is None or info.name in self._names:
            _print(f"Print IR after: {info.name}", mod, self._file)


@pass_instrument
class PassPrintingInstrument:
    """Prints the module before some passes and after some; TVM's `PassPrintingInstrument`.

    Parameters:
        print_before_pass_names: names of the passes before which to print; none by default.
        print_after_pass_names: names of the passes after which to print; none by default.
        file: where to; None is what `sys.stdout` is at the time.

    Raises:
        TypeError: if names are given as a string, or hold something else than strings.

    """

    def __init__(
        self,
        print_before_pass_names: Iterable[str] = (),
        print_after_pass_names: Iterable[str] = (),
        file: TextIO | None = None,
    ) -> None:
        self._before = PrintIRBefore(_names("print_before_pass_names", print_before_pass_names) or (), file)
        self._after = PrintIRAfter(_names("print_after_pass_names", print_after_pass_names) or (), file)

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module if the pass is named."""
        self._before.run_before_pass(mod, info)

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module if the pass is named."""
        self._after.run_after_pass(mod, info)


@pass_instrument
class PrintBeforeAll:
    """Prints the metadata of every pass and the module that it gets; TVM's `PrintBeforeAll`.

    Parameters:
        file: where to; None is what `sys.stdout` is at the time.

    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module."""
        _print(f"Before Running Pass: {info}", mod, self._file)


@pass_instrument
class PrintAfterAll:
    """Prints the metadata of every pass and the module that it returned; TVM's `PrintAfterAll`.

    Parameters:
        file: where to; None is what `sys.stdout` is at the time.

    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module."""
        _print(f"After Running Pass: {info}", mod, self._file)


def _names(parameter: str, names: Iterable[str] | None) -> frozenset[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"{parameter} must be a list or set of pass names, not {names!r}")
    given = frozenset(names)
    for name in given:
        if not isinstance(name, str):
            raise TypeError(f"{parameter} must hold names of passes, not {name!r}")
    return given


def _print(heading: str, mod: Any, file: TextIO | None) -> None:
    name = current_module_name()
    where = "" if name is None else f" (module {name!r})"
    # In one write: other tasks and threads may print to the same file.
    (sys.stdout if file is None else file).write(f"{heading}{where}\n{adapter_for(mod).to_text(mod)}\n\n")
