"""`PrintIR`: a pass that prints the module and returns it unchanged."""

import sys
from collections.abc import Mapping
from typing import Any

from apass.core.adapter import ModT, adapter_for
from apass.core.context import PassContext
from apass.core.pass_info import PassInfo
from apass.core.run import current_module_name
from apass.errors import PassDefinitionError
from apass.passes.base import ModulePass
from apass.util.printable import for_file, printable

__all__ = ["PrintIR"]


class PrintIR(ModulePass[Any]):
    """Prints the module to the current `sys.stdout` and returns it; TVM's `PrintIR`.

    In a pipeline it is written as `PrintIR` or `PrintIR{header="after folding"}`.

    Parameters:
        header: a title that is printed above the module.

    Raises:
        PassDefinitionError: if `header` is not a string.

    >>> import apass
    >>> apass.run(PrintIR("start"), {"f": 1}) == {"f": 1}
    PrintIR(start):
    f: 1
    True

    """

    info: PassInfo = PassInfo(opt_level=0, name="PrintIR")
    """Level 0: the pass runs at every level."""

    def __init__(self, header: str = "") -> None:
        if not isinstance(header, str):
            raise PassDefinitionError(f"the header of PrintIR must be a string, got {header!r}")
        self.header = header
        """The title that is printed above the module."""
        self.spec: tuple[str, Mapping[str, object]] | None = ("PrintIR", {"header": header} if header else {})

    def transform_module(self, mod: ModT, ctx: PassContext) -> ModT:
        """Print `mod` and return it."""
        name = current_module_name()
        where = "" if name is None else f" (module {name!r})"
        # A single write, because other tasks and threads may print to the same file.
        text = f"PrintIR({printable(self.header)}){where}:\n{self.text_of(mod)}\n"
        sys.stdout.write(for_file(text, sys.stdout))
        return mod

    def text_of(self, mod: Any) -> str:
        """Return the text of the module that is printed."""
        return adapter_for(mod).to_text(mod)
