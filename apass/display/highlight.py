"""Highlighting of IR texts, diffs and rendered diagnostics."""

import re
from collections.abc import Iterator
from typing import Final

from apass.display.blocks import Block, Code, Line, Span, Style
from apass.util.text_diff import limit_lines

__all__ = ["MAX_COLUMNS", "MAX_LINES", "highlight_diff", "highlight_ir", "highlight_rendered", "plain_lines"]

MAX_COLUMNS: Final = 500
"""The number of characters that are shown of a line."""
MAX_LINES: Final = 1_000
"""The number of lines that are shown of a function, of its diff, or of diagnostics."""

_TOKEN: Final = re.compile(
    r"""
    (?P<comment> /\*.*?\*/ | //.* )
  | (?P<string> "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' )
  | (?P<variable> [%@][\w.]+ )
  | (?P<number> (?<![\w.]) \d[\w.]* )
  | (?P<keyword> \b(?: def | fn | free_var | func | else | if | import | let | match | module | return | type
                     | b?float\d+ | bool | u?int\d+ | Tensor | tensor )\b )
    """,
    re.VERBOSE,
)
"""The tokens that the texts of Relay, ONNX, MLIR, LLVM and Python values have in common."""

_DIFF: Final[dict[str, Style]] = {"@": "note", "+": "good", "-": "bad"}
"""Styles by the first character of a line of a diff."""

_ANSI: Final = re.compile(r"\x1b\[([\d;]*)m")
_ANSI_STYLES: Final[dict[str, Style]] = {
    "1": "name",
    "1;31": "bad",
    "1;32": "good",
    "1;33": "warning",
    "1;34": "muted",
    "1;36": "note",
}
"""Styles by the codes that `DiagnosticContext.rendered` uses."""


def plain_lines(text: str) -> list[str]:
    """Return the lines of a text, each cut at `MAX_COLUMNS` characters."""
    return [line if len(line) <= MAX_COLUMNS else f"{line[:MAX_COLUMNS]} ..." for line in text.splitlines()]


def highlight_ir(text: str) -> Code:
    """Return the text of a module or of a function, with its tokens marked.

    >>> [(span.text, span.style) for span in highlight_ir("%1 = add(%x, 2)").lines[0]]
    [('%1', 'variable'), (' = add(', 'plain'), ('%x', 'variable'), (', ', 'plain'), ('2', 'number'), (')', 'plain')]
    """
    return Code([tuple(_tokens(line)) for line in plain_lines(text)])


def highlight_diff(diff: str) -> Code:
    """Return a unified diff with its lines marked."""
    return Code([(Span(line, _DIFF.get(line[:1], "plain")),) for line in plain_lines(diff)])


def highlight_rendered(diagnostics: str) -> Block:
    """Return diagnostics, as `DiagnosticContext.rendered` gives them with colour."""
    if not diagnostics:
        return (Span("no diagnostics are pending", "muted"),)
    return Code([_painted(line) for line in limit_lines(diagnostics, MAX_LINES).split("\n")])


def _tokens(line: str) -> Iterator[Span]:
    end = 0
    for match in _TOKEN.finditer(line):
        if match.start() > end:
            yield Span(line[end : match.start()])
        yield Span(match.group(), _TOKEN_STYLES[match.lastgroup or ""])
        end = match.end()
    if end < len(line):
        yield Span(line[end:])


_TOKEN_STYLES: Final[dict[str, Style]] = {
    "comment": "comment",
    "string": "string",
    "variable": "variable",
    "number": "number",
    "keyword": "keyword",
}


def _painted(line: str) -> Line:
    # Texts in between have no escape characters of their own: the renderer replaces them.
    parts = _ANSI.split(line)
    styles = ["", *parts[1::2]]
    return tuple(
        Span(text, _ANSI_STYLES.get(style, "plain")) for text, style in zip(parts[::2], styles, strict=True) if text
    )
