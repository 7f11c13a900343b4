"""Sources, spans and rendered warnings for tests of diagnostics."""

from textwrap import dedent

from hypothesis import settings
from hypothesis import strategies as st

from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import DiagnosticLevel, Span

ERROR, WARNING, NOTE, HELP = DiagnosticLevel

PROGRAM = "def @main(%x) {\n  let %y = add(%x);\n  %y\n}\n"


def golden(text: str) -> str:
    """Return expected text without its indentation and outer blank lines."""
    return dedent(text).strip("\n")


def at(line: int, column: int, end_line: int, end_column: int) -> Span:
    """Return a span in source "m"."""
    return Span("m", line, end_line, column, end_column)


def rendered_warning(text: str, *positions: int) -> str:
    """Return a warning in source `text`, rendered.

    `positions` are line, column, end_line and end_column.
    """
    diag_ctx = DiagnosticContext({"m": text})
    diag_ctx.warning("here", at(*positions))
    return diag_ctx.rendered()


LAW = settings(deadline=None)

LEVELS = st.sampled_from(DiagnosticLevel)
