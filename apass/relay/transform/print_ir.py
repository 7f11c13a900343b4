"""PrintIR of Relay: print the module, with the contents of constants if requested."""

from typing import Any

from apass.passes.print_ir import PrintIR as AnyPrintIR
from apass.relay.ir.module import IRModule
from apass.relay.text.printing.printer import astext
from apass.relay.transform.support.module_pass import check_is_module

__all__ = ["PrintIR"]


class PrintIR(AnyPrintIR):
    """Prints a Relay module to `sys.stdout` and returns it; TVM's `PrintIR`.

    TVM writes to its log instead. In a pipeline, `PrintIR` is the pass for any IR.

    Parameters:
        header: a title above the module.
        show_meta_data: whether the text contains the values of the constants.

    Raises:
        PassDefinitionError: if `header` is not a string.
        AdapterError: if the input is not a Relay module.

    """

    module_type = IRModule
    """The class of modules that the pass takes."""

    def __init__(self, header: str = "", show_meta_data: bool = False) -> None:
        super().__init__(header)
        self.show_meta_data = show_meta_data
        """Whether the text contains the values of the constants."""
        if show_meta_data:
            # No text of a pipeline has this option.
            self.spec = None

    def text_of(self, mod: Any) -> str:
        """Return Relay's text of the module."""
        check_is_module(self.info.name, mod)
        return astext(mod, show_meta_data=self.show_meta_data)
