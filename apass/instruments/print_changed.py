"""`PrintChanged`: prints what each pass changed, as a diff of the text."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TextIO

from anyio.to_thread import run_sync

from apass.core.instrument import pass_instrument
from apass.core.module_diff import ModuleDiff
from apass.core.pass_info import PassInfo
from apass.instruments.support.printing import PrintsChanges, module_suffix, pass_title
from apass.util.printable import for_file
from apass.util.text_diff import paint_diff, wants_color

__all__ = ["PrintChanged"]

_LARGE: Final = 100_000
"""Texts of at least this many characters are compared in a worker thread."""


@pass_instrument
class PrintChanged(PrintsChanges):
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
        super().__init__(names, file, modules, functions)
        self._color = color
        self._context = context

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

    async def _print_change(self, before: Any, after: Any, info: PassInfo) -> None:
        selects = None if self._selection.functions is None else self._selection.includes
        texts = ModuleDiff.of(before, after, selects)
        compare = partial(texts.text, context=self._context)
        diff = await run_sync(compare) if texts.size >= _LARGE else compare()
        if not diff:
            return
        file = self.output
        is_colored = wants_color(file) if self._color is None else self._color
        shown = for_file(diff, file)
        # A single write, because other tasks and threads may print to the same file.
        file.write(
            f"IR changed by {pass_title(info)}{module_suffix()}\n{paint_diff(shown) if is_colored else shown}\n\n"
        )
