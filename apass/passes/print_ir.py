"""`PrintIR`: the pass that prints the module and returns it as it is; for a place in a pipeline."""

import sys
from typing import Any

from apass.core.adapter import ModT, adapter_for
from apass.core.context import PassContext
from apass.core.info import PassInfo
from apass.core.run import current_module_name
from apass.errors import PassDefinitionError
from apass.passes.base import ModulePass
from apass.passes.registry import register_pass

__all__ = ["PrintIR"]


class PrintIR(ModulePass[Any]):
    """Prints the module to what `sys.stdout` is at the time, in one write, and returns it; TVM's `PrintIR`.

    In a pipeline it is `PrintIR` or `PrintIR{header="after folding"}`.

    Parameters:
        header: stands above the module, to tell one print from another.

    Raises:
        PassDefinitionError: if `header` is no string.

    >>> import apass
    >>> apass.run(PrintIR("start"), {"f": 1}) == {"f": 1}
    PrintIR(start):
    f: 1
    True

    """

    info = PassInfo(opt_level=0, name="PrintIR")
    """Runs at every level."""

    def __init__(self, header: str = "") -> None:
        if not isinstance(header, str):
            raise PassDefinitionError(f"the header of PrintIR must be a string, not {header!r}")
        self.header = header
        """What stands above the module."""
        self.spec = ("PrintIR", {"header": header} if header else {})

    def transform_module(self, mod: ModT, ctx: PassContext) -> ModT:
        """Print `mod` and return it."""
        name = current_module_name()
        where = "" if name is None else f" (module {name!r})"
        # In one write: other tasks and threads may print to the same file.
        sys.stdout.write(f"PrintIR({self.header}){where}:\n{adapter_for(mod).to_text(mod)}\n")
        return mod


register_pass("PrintIR", PrintIR)
