"""AnnotateSpans: give each expression its position in the program text.

TVM's pass of that name.
"""

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.module import IRModule
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext
from apass.relay.transform.support.module_pass import module_pass

__all__ = ["SOURCE_NAME", "AnnotateSpans", "annotate_spans"]

SOURCE_NAME = "GeneratedSource"
"""Name of the text that the spans point into."""


def annotate_spans(mod: IRModule) -> IRModule:
    """Return the module with spans that point into its own printed text.

    The module is printed and parsed again.
    """
    return read_module(astext(mod), SOURCE_NAME)


@provide_pass("AnnotateSpans")
def AnnotateSpans() -> ModulePass[IRModule]:
    """Give each expression its position in the program text, for diagnostics."""
    return module_pass(_annotate, opt_level=0, name="AnnotateSpans")


def _annotate(mod: IRModule, ctx: PassContext) -> IRModule:
    return annotate_spans(mod)
