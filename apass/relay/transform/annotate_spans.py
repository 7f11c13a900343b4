"""AnnotateSpans: every expression gets its place in the text of the program; TVM's pass of that name."""

from apass.core.context import PassContext
from apass.passes.base import ModulePass
from apass.passes.registry import provide_pass
from apass.relay.ir.module import IRModule
from apass.relay.text.parsing.reader import read_module
from apass.relay.text.printing.printer import astext
from apass.relay.transform.support.decorators import module_pass

__all__ = ["SOURCE_NAME", "AnnotateSpans", "annotate_spans"]

SOURCE_NAME = "GeneratedSource"
"""The name of the text that the spans point into."""


def annotate_spans(mod: IRModule) -> IRModule:
    """Return a module with spans that point into its own text, made by printing and parsing it."""
    return read_module(astext(mod), SOURCE_NAME)


@provide_pass("AnnotateSpans")
def AnnotateSpans() -> ModulePass[IRModule]:
    """Give each expression its place in the text of the module, so that diagnostics can show where it stands."""
    return module_pass(_annotate, opt_level=0, name="AnnotateSpans")


def _annotate(mod: IRModule, ctx: PassContext) -> IRModule:
    return annotate_spans(mod)
