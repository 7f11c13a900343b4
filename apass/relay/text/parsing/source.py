"""`Source`: a source text, with conversion of offsets to spans and errors."""

from bisect import bisect_right
from dataclasses import dataclass, field

from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Span
from apass.relay.errors import ParseError, shortened

__all__ = ["Source", "TextError"]


class TextError(Exception):
    """An error at two offsets of the text. The parser converts it to a ParseError."""

    def __init__(self, message: str, start: int, end: int, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.advice = advice


@dataclass(slots=True)
class Source:
    """A source text and its name."""

    name: str
    """The name in diagnostics."""
    text: str
    """The text."""
    _lines: list[int] = field(default_factory=list[int])  # the offset at which each line starts, found on first use
    _line: int = 0  # the current line, from 1, and its start and end offsets
    _low: int = 0
    _high: int = -1

    def span(self, start: int, end: int) -> Span:
        """Return the span between two offsets. Offsets on the current line are fast."""
        if not self._low <= start < self._high:
            self._seek(start)
        line, low = self._line, self._low
        if end < self._high:
            return Span(self.name, line, line, start - low + 1, end - low + 1)
        self._seek(end)
        return Span(self.name, line, self._line, start - low + 1, end - self._low + 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        if not self._low <= offset < self._high:
            self._seek(offset)
        return self._line, offset - self._low + 1

    def _seek(self, offset: int) -> None:
        """Make the line of an offset the current one."""
        lines = self._lines
        if not lines:
            lines.append(0)
            newline = self.text.find("\n")
            while newline >= 0:
                lines.append(newline + 1)
                newline = self.text.find("\n", newline + 1)
        self._line = bisect_right(lines, offset)
        self._low = lines[self._line - 1]
        self._high = lines[self._line] if self._line < len(lines) else len(self.text) + 1

    def error(self, error: TextError) -> ParseError:
        """Return a ParseError that shows the location of `error` in the text."""
        diag_ctx = DiagnosticContext({self.name: self.text})
        diag_ctx.error(shortened(error.message), self.span(error.start, error.end))
        if error.advice:
            diag_ctx.help(shortened(error.advice))
        return ParseError(diag_ctx.rendered())
