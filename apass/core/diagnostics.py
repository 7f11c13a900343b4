"""Diagnostics that point into source text.

The names are TVM's, the rendered form is rustc's.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import Self

from apass.core.displayed import Displayed
from apass.core.run import Run
from apass.util.checks import check_type

__all__ = ["Diagnostic", "DiagnosticLevel", "Span", "render"]


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

    def same_as(self, other: object) -> bool:
        """Return whether `other` is the same object, as TVM's objects do."""
        return self is other


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
    source: str | None = field(default=None, repr=False, compare=False)
    """The text that `span` points into; None for the one that `DiagnosticContext.add_source` set for its name."""

    def __block__(self) -> object:
        return self.__block_of__([self])

    @classmethod
    def __block_of__(cls, items: Sequence["Diagnostic"]) -> object:
        # The blocks take long to import, and most programs show none.
        from apass.display.highlight import highlight_rendered

        return highlight_rendered(render(items, {}, 0, {}, True))

    def __post_init__(self) -> None:
        """Check the fields here, because rendering is far from the cause of a wrong type."""
        check_type("level of a diagnostic", self.level, DiagnosticLevel)
        check_type("message of a diagnostic", self.message, str)
        check_type("span of a diagnostic", self.span, Span | None)
        for origin in ("pass_name", "function", "module", "source"):
            check_type(f"{origin} of a diagnostic", getattr(self, origin), str | None)
        if self.span is not None:
            check_type("source_name of a span", self.span.source_name, str)
            for name in ("line", "end_line", "column", "end_column"):
                check_type(f"{name} of a span", getattr(self.span, name), int)

    @property
    def origin(self) -> tuple[str | None, str | None, str | None]:
        """The names of pass, function and module."""
        return self.pass_name, self.function, self.module

    def made_by(self, run: Run | None) -> "Diagnostic":
        """Return the diagnostic with the names of pass, function and module of a run.

        One that names any of these is returned as it is.
        """
        # All or nothing: a function without its pass would be a wrong place.
        if run is None or self.origin != (None, None, None):
            return self
        return replace(self, pass_name=run.info.name, function=run.function, module=run.module)

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


# From here on, lines and characters count from 0; in spans they count from 1.

_BOLD, _GUTTER = "1", "1;34"
_LINE_LIMIT, _LINE_BEFORE = 200, 60  # maximum number of characters shown of a line, and of those before the span
_LEVEL_STYLE = dict(zip(DiagnosticLevel, ("1;31", "1;33", "1;32", "1;36"), strict=True))
_DOTS = "..."
_INNER_LINES = 5  # maximum number of lines between the first and the last of a span; dots replace the others
# Control characters for bidirectional text. They could make source text appear in another order ("Trojan Source").
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _paint(style: str, text: str, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color and text else text


def render(
    pending: Sequence[Diagnostic],
    dropped: Mapping[DiagnosticLevel, int],
    limit: int,
    sources: Mapping[str, str],
    color: bool,
) -> str:
    """Return the text of the pending diagnostics, with excerpts of the sources.

    `dropped` counts the diagnostics of each level that exceeded `limit`; a last note reports them.
    """
    # Each text is split into lines once, however many diagnostics point into it.
    texts = {_source_of(diagnostic, sources) for diagnostic in pending}
    lines = {text: [] if text is None else _lines(text) for text in texts}
    groups = [
        "\n".join(_show(diagnostic, lines[_source_of(diagnostic, sources)], color) for diagnostic in group)
        for group in _groups(_ordered(pending))
    ]
    if dropped:
        counts = ", ".join(f"{level.name.lower()} {dropped[level]}" for level in sorted(dropped))
        message = f"{sum(dropped.values())} more not shown ({counts}): at most {limit} diagnostics can be pending"
        groups.append(_heading(DiagnosticLevel.NOTE, message, color))
    return "\n\n".join(groups)


def _source_of(diagnostic: Diagnostic, sources: Mapping[str, str]) -> str | None:
    """Return the text that a diagnostic points into; None if it is not known."""
    if diagnostic.span is None or diagnostic.source is not None:
        return diagnostic.source
    return sources.get(diagnostic.span.source_name)


def _ordered(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics in an order that is the same in every run.

    Modules and functions run concurrently, so that their diagnostics are emitted in any order. Within one function of
    one module, and for passes of one module, the order of emission is kept.
    """
    first_use: dict[tuple[str | None, str | None], int] = {}
    for index, diagnostic in enumerate(diagnostics):
        first_use.setdefault((diagnostic.module, diagnostic.pass_name), index)

    def key(diagnostic: Diagnostic) -> tuple[bool, str, int, str]:
        module, pass_name = diagnostic.module, diagnostic.pass_name
        return (module is not None, module or "", first_use[module, pass_name], diagnostic.function or "")

    return sorted(diagnostics, key=key)


def _groups(diagnostics: Iterable[Diagnostic]) -> list[list[Diagnostic]]:
    """Return groups: each error or warning, followed by its notes and helps."""
    groups: list[list[Diagnostic]] = []
    latest: dict[tuple[str | None, ...], list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        origin = diagnostic.origin
        is_first = diagnostic.level <= DiagnosticLevel.WARNING
        if not is_first and origin in latest:
            latest[origin].append(diagnostic)
            continue
        groups.append([diagnostic])
        if is_first:
            # Notes without an origin belong to the latest error or warning of any origin.
            latest[origin] = latest[None, None, None] = groups[-1]
    return groups


def _show(diagnostic: Diagnostic, lines: Sequence[str], color: bool) -> str:
    span, mark = diagnostic.span, partial(_paint, _LEVEL_STYLE[diagnostic.level], color=color)
    rows = [] if span is None else _excerpt(lines, span, mark)
    width = max((len(label) for label, _ in rows if label != _DOTS), default=1)
    shown = [_heading(diagnostic.level, diagnostic.message, color)]
    if span is not None:
        location = f"{_clean(span.source_name)}:{span.line}:{span.column}"
        shown.append(f"{' ' * width}{_paint(_GUTTER, '-->', color)} {location}")
    parts = zip(("pass", "function", "module"), diagnostic.origin, strict=True)
    named = [f"{kind} {_clean(name)}" for kind, name in parts if name is not None]
    origin = f"in {', '.join(named)}" if named else ""
    if origin and rows:
        rows.append(("", ""))
    shown += [_row(label, body, width, color) for label, body in rows]
    if origin:
        shown.append(f"{' ' * (width + 1)}{_paint(_GUTTER, '=', color)} {origin}")
    return "\n".join(shown)


def _heading(level: DiagnosticLevel, message: str, color: bool) -> str:
    label = f"{level.name.lower()}:"
    lines = [_paint(_BOLD, _clean(line).rstrip(), color) for line in _lines(message.rstrip())]
    lines[0] = f"{_paint(_LEVEL_STYLE[level], label, color)} {lines[0]}"
    return "\n".join(f"{' ' * (len(label) + 1) if index else ''}{line}".rstrip() for index, line in enumerate(lines))


def _row(label: str, body: str, width: int, color: bool) -> str:
    if label == _DOTS:
        return f"{_paint(_GUTTER, label, color)}{' ' * width}{body}"
    return f"{_paint(_GUTTER, f'{label:>{width}} |', color)} {body}".rstrip()


def _excerpt(lines: Sequence[str], span: Span, mark: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return the label and body of each row of the excerpt.

    If `span` starts outside the text, there are no rows.
    """
    if not 1 <= span.line <= len(lines):
        return []
    (first, start), (last, end) = _within(lines, span)
    if first == last:
        text, before, under = _layout(lines[first], start, end)
        return [("", ""), (str(first + 1), text), ("", " " * before + mark("^" * under))]
    text, before, under = _layout(lines[first], start, start + 1)
    rows = [("", ""), (str(first + 1), f"  {text}"), ("", " " + mark("_" * (before + 1) + "^" * under))]
    inner = range(first + 1, last)
    shown = inner if len(inner) <= _INNER_LINES else (*inner[: _INNER_LINES - 2], *inner[-1:])
    rows += [(str(index + 1), f"{mark('|')} {_layout(lines[index], 0, 0)[0]}") for index in shown]
    if len(shown) < len(inner):
        rows.insert(-1, (_DOTS, mark("|")))
    text, before, under = _layout(lines[last], max(end - 1, 0), end)
    return [*rows, (str(last + 1), f"{mark('|')} {text}"), ("", mark("|" + "_" * (before + 1) + "^" * under))]


def _within(lines: Sequence[str], span: Span) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the start and the end of `span`, as line and character within the text."""
    start = _clamp(lines, span.line, span.column)
    line, char = max(start, _clamp(lines, span.end_line, span.end_column))
    if line > start[0] and char == 0:
        return start, (line - 1, len(lines[line - 1]))  # the last character is the newline of the previous line
    return start, (line, char)


def _clamp(lines: Sequence[str], line: int, column: int) -> tuple[int, int]:
    if line < 1:
        return 0, 0
    index = min(line, len(lines)) - 1
    length = len(lines[index])
    return index, length if line > len(lines) else min(max(column - 1, 0), length)


def _layout(line: str, start: int, end: int) -> tuple[str, int, int]:
    """Return the text to show, the columns before character `start`, and up to `end`.

    The last number is at least 1.
    """
    low = max(0, min(start - _LINE_BEFORE, len(line) - _LINE_LIMIT))
    part = line[low : low + _LINE_LIMIT]
    widths = [sum(map(_width, _visible(char))) for char in part]
    first = start - low
    while 0 < first < len(part) and not widths[first]:
        first -= 1  # a combining mark is drawn on the character before it
    head, tail = _DOTS * (low > 0), _DOTS * (low + len(part) < len(line))
    return head + _clean(part) + tail, len(head) + sum(widths[:first]), max(1, sum(widths[first : end - low]))


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _clean(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    """Return a printable replacement for `char`.

    The replacement does not move the cursor, reverse the text direction or fail to encode.
    """
    if char < " ":
        return "    " if char == "\t" else chr(0x2400 + ord(char))  # the control picture, such as U+241B for escape
    unsafe = char in _REORDERING or unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}
    return "\ufffd" if unsafe else char


def _width(char: str) -> int:
    """Return the number of terminal columns of `char`."""
    if char.isascii() or char == "\u00ad":
        return 1
    if unicodedata.category(char) in {"Mn", "Me", "Cf"} or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
