"""`Source`: a text that is parsed, the spans in it, and the errors about it."""

from bisect import bisect_right
from dataclasses import dataclass, field

from apass.core.diagnostics import DiagnosticContext, Span
from apass.relay.errors import ParseError

__all__ = ["Source", "TextError"]


class TextError(Exception):
    """Something is wrong between two offsets of the text; the parser raises a ParseError in its place."""

    def __init__(self, message: str, start: int, end: int, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.advice = advice


@dataclass(slots=True)
class Source:
    """A text and its name."""

    name: str
    """What diagnostics call it."""
    text: str
    """The text."""
    _lines: list[int] = field(default_factory=list[int])
    _line: int = 0
    _low: int = 0
    _high: int = -1

    def span(self, start: int, end: int) -> Span:
        """Return the span between two offsets; quick if they are near those of the last call."""
        if not self._low <= start < self._high:
            self._seek(start)
        line, low = self._line, self._low
        if end < self._high:
            return Span(self.name, line, start - low + 1, line, end - low + 1)
        self._seek(end)
        return Span(self.name, line, start - low + 1, self._line, end - self._low + 1)

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset."""
        if not self._low <= offset < self._high:
            self._seek(offset)
        return self._line, offset - self._low + 1

    def _seek(self, offset: int) -> None:
        """Make the line of an offset the current one."""
        lines = self._lines
        if not lines:
            lines.append(0)
            at = self.text.find("\n")
            while at >= 0:
                lines.append(at + 1)
                at = self.text.find("\n", at + 1)
        self._line = bisect_right(lines, offset)
        self._low = lines[self._line - 1]
        self._high = lines[self._line] if self._line < len(lines) else len(self.text) + 1

    def error(self, error: TextError) -> ParseError:
        """Return the error that shows it in the text."""
        diag_ctx = DiagnosticContext({self.name: self.text})
        diag_ctx.error(error.message, self.span(error.start, error.end))
        if error.advice:
            diag_ctx.help(error.advice)
        return ParseError(diag_ctx.rendered())
