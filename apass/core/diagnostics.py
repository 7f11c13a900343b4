"""Diagnostics that point into source text, in TVM's words: emitted by passes and parsers, rendered as rustc does."""

import os
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from types import UnionType
from typing import Self, TextIO

from apass.errors import DiagnosticError

__all__ = ["Diagnostic", "DiagnosticContext", "DiagnosticLevel", "Span"]


class DiagnosticLevel(IntEnum):
    """How grave a diagnostic is: the lower the number, the graver, as in TVM."""

    ERROR = 20
    """What was asked for cannot be done; `DiagnosticContext.render` raises."""
    WARNING = 30
    """It was done, but perhaps not as it was meant."""
    NOTE = 40
    """Says more about the error or warning before it."""
    HELP = 50
    """Says what to do about the error or warning before it."""


@dataclass(frozen=True, slots=True)
class Span:
    r"""A stretch of a source text; its end is exclusive, as in TVM's tokenizer.

    Lines and columns count from 1; a column is one character (code point), a tab too. Lines end at `"\n"`.
    A span that reaches outside of its text, or ends before it starts, is no error: it is shown as far as it can be.

    >>> Span("main.relay", line=3, column=5, end_line=3, end_column=8)  # three characters of line 3
    Span(source_name='main.relay', line=3, column=5, end_line=3, end_column=8)
    """

    source_name: str
    """The name under which the text was given to `DiagnosticContext.add_source`."""
    line: int
    """The line of the first character."""
    column: int
    """The column of the first character."""
    end_line: int
    """The line of the end."""
    end_column: int
    """The column after the last character; an end that is the start marks a point, shown by one caret."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message, where in a source it belongs, and which pass on what it came from.

    Raises:
        TypeError: if a field is of the wrong type, here and not later when it is rendered.

    >>> Diagnostic.error("the type of `x` is unknown").level
    <DiagnosticLevel.ERROR: 20>
    """

    level: DiagnosticLevel
    """How grave it is."""
    message: str
    """What there is to say, in one line or more."""
    span: Span | None = None
    """The place in the source that it is about, if there is one."""
    pass_name: str | None = None
    """The name of the pass that it came from."""
    function: str | None = None
    """The name of the function that the pass was working on."""
    module: str | None = None
    """The name of the module that the pass was working on."""

    def __post_init__(self) -> None:
        """Check the fields."""
        _check("level of a diagnostic", self.level, DiagnosticLevel)
        _check("message of a diagnostic", self.message, str)
        _check("span of a diagnostic", self.span, Span | None)
        for origin in ("pass_name", "function", "module"):
            _check(f"{origin} of a diagnostic", getattr(self, origin), str | None)
        if self.span is not None:
            _check("source_name of a span", self.span.source_name, str)
            for place in ("line", "column", "end_line", "end_column"):
                _check(f"{place} of a span", getattr(self.span, place), int)

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


class DiagnosticContext:
    """Gathers diagnostics, from any number of tasks and threads, until they are rendered.

    At most `limit` diagnostics are pending: later ones are counted, and the rendering says how many there were. The
    first error is always among those kept, so an error never goes unnoticed. At most `source_limit` source
    texts are held: the one added longest ago goes first, and what points into it is shown without an excerpt.

    Raises:
        ValueError: if `limit` or `source_limit` is less than 1.

    >>> diag_ctx = DiagnosticContext({"main.relay": "let %x = add(%y);"})
    >>> diag_ctx.warning("`add` takes two arguments", Span("main.relay", 1, 10, 1, 17))
    >>> diag_ctx.help("write `add(%y, %y)` to double it")
    >>> print(diag_ctx.render())
    warning: `add` takes two arguments
     --> main.relay:1:10
      |
    1 | let %x = add(%y);
      |          ^^^^^^^
    help: write `add(%y, %y)` to double it
    """

    def __init__(
        self, sources: Mapping[str, str] | None = None, *, limit: int = 10_000, source_limit: int = 1_000
    ) -> None:
        if limit < 1 or source_limit < 1:
            raise ValueError(f"limit and source_limit must be at least 1, not {limit!r} and {source_limit!r}")
        self._limit, self._source_limit = limit, source_limit
        self._lock = threading.Lock()
        self._batch = _Batch()
        self._sources: dict[str, str] = {}
        for name, text in (sources or {}).items():
            self.add_source(name, text)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What is pending, in the order in which it was emitted."""
        with self._lock:
            return tuple(self._batch.pending)

    def add_source(self, name: str, text: str) -> None:
        """Let the spans of source `name` be shown in `text`; a text given earlier under the name is replaced."""
        _check(f"text of source {name!r}", text, str)
        with self._lock:
            self._sources.pop(name, None)
            self._sources[name] = text
            if len(self._sources) > self._source_limit:
                del self._sources[next(iter(self._sources))]

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add `diagnostic` to what is pending, or count it if there is no more room."""
        _check("argument of emit()", diagnostic, Diagnostic)
        with self._lock:
            self._batch.add(diagnostic, self._limit)

    def error(self, message: str, span: Span | None = None) -> None:
        """Emit an error."""
        self.emit(Diagnostic.error(message, span))

    def warning(self, message: str, span: Span | None = None) -> None:
        """Emit a warning."""
        self.emit(Diagnostic.warning(message, span))

    def note(self, message: str, span: Span | None = None) -> None:
        """Emit a note on the error or warning before it."""
        self.emit(Diagnostic.note(message, span))

    def help(self, message: str, span: Span | None = None) -> None:
        """Emit a help on the error or warning before it."""
        self.emit(Diagnostic.help(message, span))

    def rendered(self, *, color: bool = False) -> str:
        """Return the text of what is pending, without a newline at its end; nothing is cleared, nothing is raised.

        Each error and warning is followed by its notes and helps: those that name the same pass, function and module,
        and those that name none and came before the next error or warning. So tasks that take turns mix nothing up.
        """
        with self._lock:
            batch = _Batch(self._batch.pending.copy(), self._batch.dropped.copy())
            sources = self._sources.copy()
        return _render(batch, self._limit, sources, color)

    def render(self, *, file: TextIO | None = None, color: bool | None = None) -> str:
        """Clear what is pending, write its text and a newline to `file`, if one is given, and return the text.

        With `color=None` there is colour if `file` is a terminal and the environment sets no `NO_COLOR`. If writing
        fails, its error goes on with the text as a note.

        Raises:
            DiagnosticError: if an error was among them; the message is the text without colour.

        """
        if color is None:
            color = file is not None and file.isatty() and not os.environ.get("NO_COLOR")
        with self._lock:
            batch, self._batch = self._batch, _Batch()
            sources = self._sources.copy()
        text = _render(batch, self._limit, sources, color)
        if file is not None and text:
            _write(text, file)
        if batch.has_error:
            raise DiagnosticError(_render(batch, self._limit, sources, False))
        return text


def _check(what: str, given: object, kind: type | UnionType) -> None:
    if not isinstance(given, kind):
        wanted = kind.__name__ if isinstance(kind, type) else str(kind).removeprefix(f"{__name__}.")
        raise TypeError(f"the {what} must be of type {wanted}, not {given!r}")


def _write(text: str, file: TextIO) -> None:
    encoding = file.encoding or "utf-8"
    try:
        # What the encoding does not have is spelt as an escape, as Python does in tracebacks.
        file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    except Exception as error:
        error.add_note(f"these diagnostics could not be written:\n{text}")
        raise


@dataclass(slots=True)
class _Batch:
    """What is pending, and how many of each level found no room."""

    pending: list[Diagnostic] = field(default_factory=list[Diagnostic])
    dropped: Counter[DiagnosticLevel] = field(default_factory=Counter[DiagnosticLevel])
    has_error: bool = False

    def add(self, diagnostic: Diagnostic, limit: int) -> None:
        is_error = diagnostic.level is DiagnosticLevel.ERROR
        if len(self.pending) < limit:
            self.pending.append(diagnostic)
        elif is_error and not self.has_error:
            # The first error takes the last place: a flood of warnings must not hide it.
            self.dropped[self.pending[-1].level] += 1
            self.pending[-1] = diagnostic
        else:
            self.dropped[diagnostic.level] += 1
        self.has_error = self.has_error or is_error


# The rendering: pure functions from values to text. Within it, lines and characters count from 0.

_BOLD, _GUTTER = "1", "1;34"
_LEVEL_STYLE = dict(zip(DiagnosticLevel, ("1;31", "1;33", "1;32", "1;36"), strict=True))
_DOTS = "..."
_INNER_LINES = 5  # between the first and the last of a span; when there are more, dots stand for some
_LINE_LIMIT, _LINE_BEFORE = 200, 60  # characters shown of a line, and how many of them before the span
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _paint(style: str, text: str, color: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if color and text else text


def _render(batch: _Batch, limit: int, sources: Mapping[str, str], color: bool) -> str:
    named = {diagnostic.span.source_name for diagnostic in batch.pending if diagnostic.span is not None}
    lines = {name: _lines(sources[name]) for name in named & sources.keys()}
    groups = ["\n".join(_show(one, lines, color) for one in group) for group in _groups(batch.pending)]
    if batch.dropped:
        counts = ", ".join(f"{level.name.lower()} {batch.dropped[level]}" for level in sorted(batch.dropped))
        message = f"{batch.dropped.total()} more not shown ({counts}): at most {limit} are kept until they are rendered"
        groups.append(_heading(DiagnosticLevel.NOTE, message, color))
    return "\n\n".join(groups)


def _groups(diagnostics: Iterable[Diagnostic]) -> list[list[Diagnostic]]:
    groups: list[list[Diagnostic]] = []
    latest: dict[tuple[str | None, ...], list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        origin = (diagnostic.pass_name, diagnostic.function, diagnostic.module)
        opens = diagnostic.level <= DiagnosticLevel.WARNING
        if not opens and origin in latest:
            latest[origin].append(diagnostic)
            continue
        groups.append([diagnostic])
        if opens:
            latest[origin] = latest[None, None, None] = groups[-1]
    return groups


def _show(diagnostic: Diagnostic, sources: Mapping[str, Sequence[str]], color: bool) -> str:
    span, mark = diagnostic.span, partial(_paint, _LEVEL_STYLE[diagnostic.level], color=color)
    rows = [] if span is None else _excerpt(sources.get(span.source_name, ()), span, mark)
    width = max((len(label) for label, _ in rows if label != _DOTS), default=1)
    shown = [_heading(diagnostic.level, diagnostic.message, color)]
    if span is not None:
        place = f"{_clean(span.source_name)}:{span.line}:{span.column}"
        shown.append(f"{' ' * width}{_paint(_GUTTER, '-->', color)} {place}")
    origin = _origin(diagnostic)
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


def _origin(diagnostic: Diagnostic) -> str:
    parts = (("pass", diagnostic.pass_name), ("function", diagnostic.function), ("module", diagnostic.module))
    named = [f"{kind} {_clean(name)}" for kind, name in parts if name is not None]
    return f"in {', '.join(named)}" if named else ""


def _row(label: str, body: str, width: int, color: bool) -> str:
    if label == _DOTS:
        return f"{_paint(_GUTTER, label, color)}{' ' * width}{body}"
    return f"{_paint(_GUTTER, f'{label:>{width}} |', color)} {body}".rstrip()


def _excerpt(lines: Sequence[str], span: Span, mark: Callable[[str], str]) -> list[tuple[str, str]]:
    """Return label and body of the rows that show `span`, or none if it starts outside of `lines`."""
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
    """Return line and character of the start and of the end of `span`, moved into the text."""
    start = _place(lines, span.line, span.column)
    line, char = max(start, _place(lines, span.end_line, span.end_column))
    if line > start[0] and char == 0:
        return start, (line - 1, len(lines[line - 1]))  # its last character is the newline of the line before
    return start, (line, char)


def _place(lines: Sequence[str], line: int, column: int) -> tuple[int, int]:
    if line < 1:
        return 0, 0
    index = min(line, len(lines)) - 1
    length = len(lines[index])
    return index, length if line > len(lines) else min(max(column - 1, 0), length)


def _layout(line: str, start: int, end: int) -> tuple[str, int, int]:
    """Return `line` as it is shown, the columns before character `start`, and those from it up to `end`, at least 1."""
    low = max(0, min(start - _LINE_BEFORE, len(line) - _LINE_LIMIT))
    part = line[low : low + _LINE_LIMIT]
    widths = [sum(map(_width, _visible(char))) for char in part]
    at = start - low
    while 0 < at < len(part) and not widths[at]:
        at -= 1  # a combining mark stands under or over the character before it
    head, tail = _DOTS * (low > 0), _DOTS * (low + len(part) < len(line))
    return head + _clean(part) + tail, len(head) + sum(widths[:at]), max(1, sum(widths[at : end - low]))


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.split("\n")]


def _clean(text: str) -> str:
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    """Return what is shown for `char`: nothing that moves the cursor, turns the direction or cannot be encoded."""
    if char < " ":
        return "    " if char == "\t" else chr(0x2400 + ord(char))  # its picture, such as U+241B for escape
    unsafe = char in _REORDERING or unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"}
    return "\ufffd" if unsafe else char


def _width(char: str) -> int:
    """Return the columns that a terminal gives to `char`."""
    if char.isascii() or char == "\u00ad":
        return 1
    if unicodedata.category(char) in {"Mn", "Me", "Cf"} or "\u1160" <= char <= "\u11ff":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
