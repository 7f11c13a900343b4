"""Instruments that print the IR before and after passes."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TextIO

from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import current_run
from apass.instruments.support.printing import PrintsText, module_suffix, pass_title
from apass.instruments.support.selection import Selection
from apass.util.printable import for_file, printable

__all__ = [
    "PassPrintingInstrument",
    "PrintAfterAll",
    "PrintBeforeAll",
    "PrintIRAfter",
    "PrintIRBefore",
    "PrintIRFailed",
]

_ALL: Final = Selection()


class _PrintsSelected(PrintsText):
    """Base class of the instruments that print the IR of selected passes."""

    def __init__(
        self,
        names: Iterable[str] | None = None,
        file: TextIO | None = None,
        *,
        modules: Iterable[str] | None = None,
        functions: Iterable[str] | None = None,
    ) -> None:
        self._selection = Selection.of(names, modules, functions)
        self._file = file

    def _twin(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker."""
        chosen = self._selection
        return partial(type(self), chosen.passes, self.memory(), modules=chosen.modules, functions=chosen.functions)


@pass_instrument
class PrintIRBefore(_PrintsSelected):
    """Prints the input of each selected pass.

    The heading shows the name of the pass with its options.

    Parameters:
        names: names of passes; None selects all. Here and in the next two, `*` and `?` match any characters.
        file: the output file. By default, the `sys.stdout` at the time of printing.
        modules: names of modules; None selects all.
        functions: names of functions. If given, only these functions are printed, and nothing if the module has none of
            them.

    Raises:
        TypeError: if names are a string, or contain an item that is no string.

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

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return self._twin()

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module, if the pass is selected."""
        if self._selection.covers(info):
            _print(f"Print IR before: {pass_title(info)}", self._selection, mod, self.output)


@pass_instrument
class PrintIRAfter(_PrintsSelected):
    """Prints the result of each selected pass, with `PrintIRBefore`'s parameters."""

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return self._twin()

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module, if the pass is selected."""
        if self._selection.covers(info):
            _print(f"Print IR after: {pass_title(info)}", self._selection, mod, self.output)


@pass_instrument
class PrintIRFailed(_PrintsSelected):
    """Prints the input of each selected pass that fails.

    The parameters are those of `PrintIRBefore`. A pass that is cancelled does not count as failed. A pass that contains
    others, such as a Sequential, is not printed.

    >>> import apass
    >>> Fail = apass.module_pass(lambda mod, ctx: mod["g"], opt_level=0, name="Fail")
    >>> try:
    ...     apass.run(apass.Sequential([Fail]), {"f": 8}, context=apass.PassContext(instruments=[PrintIRFailed()]))
    ... except KeyError:
    ...     pass
    Print IR of failed pass: Fail
    f: 8
    <BLANKLINE>

    """

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return self._twin()

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Print the module, if the pass is selected and contains no passes."""
        run = current_run()
        pass_: Any = None if run is None else run.pass_
        if isinstance(error, Exception) and self._selection.covers(info) and not (pass_ and any(pass_.branches())):
            _print(f"Print IR of failed pass: {pass_title(info)}", self._selection, mod, self.output)


@pass_instrument
class PassPrintingInstrument(PrintsText):
    """Prints the module before and after selected passes, as in TVM.

    Parameters:
        print_before_pass_names: names of the passes before which to print; none by default.
        print_after_pass_names: names of the passes after which to print; none by default.
        file: the output file. By default, the `sys.stdout` at the time of printing.

    Raises:
        TypeError: if names are a string, or contain an item that is no string.

    """

    def __init__(
        self,
        print_before_pass_names: Iterable[str] = (),
        print_after_pass_names: Iterable[str] = (),
        file: TextIO | None = None,
    ) -> None:
        self._before = Selection.of(print_before_pass_names, None, None, parameter="print_before_pass_names")
        self._after = Selection.of(print_after_pass_names, None, None, parameter="print_after_pass_names")
        self._file = file

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(PassPrintingInstrument, self._before.passes or (), self._after.passes or (), self.memory())

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module, if the pass is selected."""
        if self._before.covers(info):
            _print(f"Print IR before: {pass_title(info)}", self._before, mod, self.output)

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the module, if the pass is selected."""
        if self._after.covers(info):
            _print(f"Print IR after: {pass_title(info)}", self._after, mod, self.output)


@pass_instrument
class PrintBeforeAll(PrintsText):
    """Prints the metadata and the input of every pass; TVM's `PrintBeforeAll`.

    Parameters:
        file: the output file. By default, the `sys.stdout` at the time of printing.

    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(PrintBeforeAll, self.memory())

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the metadata and the module."""
        _print(f"Before Running Pass: {info}", _ALL, mod, self.output)


@pass_instrument
class PrintAfterAll(PrintsText):
    """Prints the metadata and the result of every pass; TVM's `PrintAfterAll`.

    Parameters:
        file: the output file. By default, the `sys.stdout` at the time of printing.

    """

    def __init__(self, file: TextIO | None = None) -> None:
        self._file = file

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(PrintAfterAll, self.memory())

    def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the metadata and the module."""
        _print(f"After Running Pass: {info}", _ALL, mod, self.output)


def _print(heading: str, selection: Selection, mod: Any, file: TextIO) -> None:
    text = selection.text(mod)
    if selection.functions is not None and not text:
        return
    # A single write, because other tasks and threads may print to the same file.
    file.write(for_file(f"{printable(heading)}{module_suffix()}\n{text}\n\n", file))
