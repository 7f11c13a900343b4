"""Diagnostics that point into source text.

The names are TVM's, the rendered form is that of rustc.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from apass.util.checks import check_type
from apass.util.displayed import Displayed

__all__ = ["Diagnostic", "DiagnosticLevel", "Span"]


class DiagnosticLevel(IntEnum):
    """The severity of a diagnostic. Lower is more severe, as in TVM."""

    ERROR = 20
    """The request cannot be fulfilled; `DiagnosticContext.render` raises."""
    WARNING = 30
    """The result may not be the intended one."""
    NOTE = 40
    """More information about the preceding error or warning."""
    HELP = 50
    """A suggestion for the preceding error or warning."""


@dataclass(frozen=True, slots=True)
class Span:
    r"""A range of a source text; its end is exclusive, as in TVM's tokenizer.

    Lines and columns count from 1. A column is one character (code point), including a tab. Lines end at `"\n"`. A span
    that extends beyond its text, or ends before it starts, is not an error: it is clamped.

    As in TVM, both lines precede both columns.

    >>> Span("main.relay", line=3, end_line=3, column=5, end_column=8)  # three characters of line 3
    Span(source_name='main.relay', line=3, end_line=3, column=5, end_column=8)
    """

    source_name: str
    """The name of the text in `DiagnosticContext.add_source`."""
    line: int
    """The line of the first character."""
    end_line: int
    """The line of the end."""
    column: int
    """The column of the first character."""
    end_column: int
    """The column after the last character. An empty span marks a point, shown as one caret."""


@dataclass(frozen=True, slots=True)
class Diagnostic(Displayed):
    """A message with its location in a source, and its origin.

    Raises:
        TypeError: if a field has the wrong type.

    >>> Diagnostic.error("the type of `x` is unknown").level
    <DiagnosticLevel.ERROR: 20>
    """

    level: DiagnosticLevel
    """The severity."""
    message: str
    """The text, in one line or more."""
    span: Span | None = None
    """The location in the source, if known."""
    pass_name: str | None = None
    """The name of the pass that emitted it."""
    function: str | None = None
    """The name of the current function of the pass."""
    module: str | None = None
    """The name of the current module of the pass."""

    def __post_init__(self) -> None:
        """Check the fields here, because rendering is far from the cause of a wrong type."""
        check_type("level of a diagnostic", self.level, DiagnosticLevel)
        check_type("message of a diagnostic", self.message, str)
        check_type("span of a diagnostic", self.span, Span | None)
        for origin in ("pass_name", "function", "module"):
            check_type(f"{origin} of a diagnostic", getattr(self, origin), str | None)
        if self.span is not None:
            check_type("source_name of a span", self.span.source_name, str)
            for field in ("line", "end_line", "column", "end_column"):
                check_type(f"{field} of a span", getattr(self.span, field), int)

    @classmethod
    def error(cls, message: str, span: Span | None = None) -> Self:
        """Return a diagnostic of level error."""
        return cls(DiagnosticLevel.ERROR, message, span)

    @classmethod
    def warning(cls, message: str, span: Span | None = None) -> Self:
        """Return a diagnostic of level warning."""
        return cls(DiagnosticLevel.WARNING, message, span)

    @classmethod
    def note(cls, message: str, span: Span | None = None) -> Self:
        """Return a diagnostic of level note."""
        return cls(DiagnosticLevel.NOTE, message, span)

    @classmethod
    def help(cls, message: str, span: Span | None = None) -> Self:
        """Return a diagnostic of level help."""
        return cls(DiagnosticLevel.HELP, message, span)
