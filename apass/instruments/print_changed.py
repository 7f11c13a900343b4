"""`PrintChanged`: prints what each pass changed, as a diff of the text."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TextIO

from anyio.to_thread import run_sync

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import current_run
from apass.instruments.support.change_tracker import ChangeTracker
from apass.instruments.support.module_diff import ModuleDiff
from apass.instruments.support.printing import PrintsText, module_suffix, pass_title
from apass.instruments.support.selection import Selection
from apass.util.printable import for_file
from apass.util.text_diff import paint_diff, wants_color

__all__ = ["PrintChanged"]

_LARGE: Final = 100_000
"""Texts of at least this many characters are compared in a worker thread."""


@pass_instrument
class PrintChanged(PrintsText):
    """Prints a diff after each pass that made a change; LLVM's `-print-changed=diff`.

    Each function is compared by itself, and only those that changed are shown. The line numbers count from the first
    line of the function, and its name follows them. A composite pass is shown only for changes that it made itself. The
    output of a pass is written in one call.

    Parameters:
        names: names of passes; None selects all. Here and in the next two, `*` and `?` match any characters.
        file: the output file. By default, the `sys.stdout` at the time of printing.
        modules: names of modules; None selects all.
        functions: names of functions. If given, only these functions are compared.
        color: whether to color the lines. By default, if the file is a terminal and `NO_COLOR` is not set.
        context: the number of unchanged lines around each change.

    Raises:
        TypeError: if names are a string, or contain an item that is no string.

    >>> import apass
    >>> Halve = apass.module_pass(lambda mod, ctx: {**mod, "f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> context = apass.PassContext(instruments=[PrintChanged()])
    >>> result = apass.run(apass.Sequential([Halve]), {"f": 8, "g": 1}, context=context)
    IR changed by Halve
    @@ -1 +1 @@ f
    -f: 8
    +f: 4
    <BLANKLINE>

    """

    def __init__(
        self,
        names: Iterable[str] | None = None,
        file: TextIO | None = None,
        *,
        modules: Iterable[str] | None = None,
        functions: Iterable[str] | None = None,
        color: bool | None = None,
        context: int = 3,
    ) -> None:
        self._selection = Selection.of(names, modules, functions)
        self._file = file
        self._color = color
        self._context = context
        self._tracker = ChangeTracker()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        chosen = self._selection
        color = wants_color(self.output) if self._color is None else self._color
        return partial(
            PrintChanged,
            chosen.passes,
            self.memory(),
            modules=chosen.modules,
            functions=chosen.functions,
            color=color,
            context=self._context,
        )

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the module."""
        run = current_run()
        if run is not None:
            self._tracker.begin(run, mod)

    async def run_after_pass(self, mod: Any, info: PassInfo) -> None:
        """Print the difference, if the pass changed the module."""
        run = current_run()
        if run is None:
            return
        before = self._tracker.end(run, mod)
        if before is mod or not self._selection.covers(info):
            return
        diff = await self._diff(before, mod)
        if not diff:
            return
        file = self.output
        is_colored = wants_color(file) if self._color is None else self._color
        shown = for_file(diff, file)
        # A single write, because other tasks and threads may print to the same file.
        file.write(
            f"IR changed by {pass_title(info)}{module_suffix()}\n{paint_diff(shown) if is_colored else shown}\n\n"
        )

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """Forget the module."""
        run = current_run()
        if run is not None:
            self._tracker.fail(run)

    async def _diff(self, before: Any, after: Any) -> str:
        selects = None if self._selection.functions is None else self._selection.includes
        texts = ModuleDiff.of(before, after, selects)
        compare = partial(texts.text, context=self._context)
        return await run_sync(compare) if texts.size >= _LARGE else compare()
