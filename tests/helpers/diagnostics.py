"""Sources, places in them, and how a warning there is rendered."""

from textwrap import dedent

from hypothesis import settings
from hypothesis import strategies as st

from apass.core.diagnostics import DiagnosticContext, DiagnosticLevel, Span

ERROR, WARNING, NOTE, HELP = DiagnosticLevel

PROGRAM = "def @main(%x) {\n  let %y = add(%x);\n  %y\n}\n"


def golden(text: str) -> str:
    return dedent(text).strip("\n")


def at(line: int, column: int, end_line: int, end_column: int) -> Span:
    return Span("m", line, column, end_line, end_column)


def shown(text: str, *places: int) -> str:
    """Return how a warning is rendered at line, column, end_line and end_column of source "m", which is `text`."""
    diag_ctx = DiagnosticContext({"m": text})
    diag_ctx.warning("here", at(*places))
    return diag_ctx.rendered()


LAW = settings(deadline=None)

LEVELS = st.sampled_from(DiagnosticLevel)
