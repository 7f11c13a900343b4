"""PrintIR of Relay: write the module to the log, as TVM's does."""

import logging
from typing import Final

from apass.core.context import PassContext
from apass.passes.base import ModulePass as AnyModulePass
from apass.passes.decorators import module_pass as any_module_pass
from apass.relay.ir.module import IRModule
from apass.relay.text.printing.printer import astext
from apass.relay.transform.support.module_pass import ModulePass

__all__ = ["PrintIR"]

_LOG: Final = logging.getLogger("apass.relay")


def PrintIR(header: str = "", show_meta_data: bool = False) -> AnyModulePass[IRModule]:
    """Return a pass that writes the module to the log; TVM's `PrintIR`.

    The logger is `apass.relay`, the level INFO. `apass.PrintIR` prints a module of any IR to `sys.stdout` instead.

    Parameters:
        header: a title above the module.
        show_meta_data: whether the text contains the values of the constants.

    """

    def log(mod: IRModule, ctx: PassContext) -> IRModule:
        _LOG.info("PrintIR(%s):\n%s", header, astext(mod, show_meta_data=show_meta_data))
        return mod

    # Not `module_pass` of the support folder: a cached result would write nothing.
    return any_module_pass(log, opt_level=0, name="PrintIR", base=ModulePass)
