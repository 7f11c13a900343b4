"""`DiagnosticContext`: collects diagnostics and renders them on request."""

import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TextIO

from apass.core.adapter import source_of
from apass.core.diagnostics import Diagnostic, DiagnosticLevel, Span, render
from apass.core.displayed import Displayed
from apass.core.run import current_module, current_run
from apass.errors import DiagnosticError
from apass.util.checks import check_type

__all__ = ["DiagnosticContext", "located_here"]


class DiagnosticContext(Displayed):
    """Collects the diagnostics of any number of tasks and threads.

    At most `limit` diagnostics are pending. Later ones are only counted, and the rendered text contains the count. The
    first error is always kept.

    At most `source_limit` source texts are held. The oldest is removed first; diagnostics that point into a removed
    text are rendered without an excerpt.

    Raises:
        ValueError: if `limit` or `source_limit` is less than 1.

    >>> diag_ctx = DiagnosticContext({"main.relay": "let %x = add(%y);"})
    >>> diag_ctx.warning("`add` takes two arguments", Span("main.relay", 1, 1, 10, 17))
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
            raise ValueError(f"limit and source_limit must be at least 1, got {limit!r} and {source_limit!r}")
        self._limit, self._source_limit = limit, source_limit
        self._lock = threading.Lock()
        self._batch = _Pending()
        self._sources: dict[str, str] = {}
        for name, text in (sources or {}).items():
            self.add_source(name, text)

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show none.
        from apass.display.highlight import highlight_rendered

        return highlight_rendered(self.rendered(color=True))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The pending diagnostics, in the order of emission."""
        with self._lock:
            return tuple(self._batch.pending)

    def add_source(self, name: str, text: str) -> None:
        """Set the text of source `name`, from which excerpts are shown."""
        check_type(f"text of source {name!r}", text, str)
        with self._lock:
            # Removed first, so that a text that is set again counts as the newest.
            self._sources.pop(name, None)
            self._sources[name] = text
            if len(self._sources) > self._source_limit:
                del self._sources[next(iter(self._sources))]

    def emit(self, diagnostic: Diagnostic) -> None:
        """Add `diagnostic` to the pending ones, or count it if the limit is reached.

        A diagnostic without an origin is about the current pass, function and module. Its source text is
        the module's, if the adapter has `sources`.
        """
        check_type("argument of emit()", diagnostic, Diagnostic)
        # Outside of the lock: an adapter returns the source text, and may take long.
        located = located_here(diagnostic)
        with self._lock:
            self._batch.add(located, self._limit)

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
        """Return the text of the pending diagnostics, without clearing them or raising.

        The text has no newline at its end. Each error and warning is followed by its notes and helps. These are:

        - the ones with the same pass, function and module;
        - the ones without any of these that came before the next error or warning.

        So diagnostics of concurrent tasks are not mixed up. The text is sorted by module, then by pass in the order of
        its first diagnostic, then by function, because concurrent bodies emit in any order.
        """
        with self._lock:
            batch = _Pending(self._batch.pending.copy(), self._batch.dropped.copy())
            sources = self._sources.copy()
        return render(batch.pending, batch.dropped, self._limit, sources, color)

    def render(self, *, file: TextIO | None = None, color: bool | None = None) -> str:
        """Clear the pending diagnostics and return their text.

        Parameters:
            file: where to write the text and a newline. If this fails, the text is added to the error as a note.
            color: whether to use colour. None means yes if `file` is a terminal and the environment does not set
                `NO_COLOR`.

        Raises:
            DiagnosticError: if there was an error among the diagnostics; the message is the text without colour.

        """
        if color is None:
            color = file is not None and file.isatty() and not os.environ.get("NO_COLOR")
        with self._lock:
            batch, self._batch = self._batch, _Pending()
            sources = self._sources.copy()
        text = render(batch.pending, batch.dropped, self._limit, sources, color)
        if file is not None and text:
            _write(text, file)
        if batch.has_error:
            raise DiagnosticError(render(batch.pending, batch.dropped, self._limit, sources, False))
        return text


def located_here(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic with the origin and the source text that it lacks."""
    located = diagnostic.made_by(current_run())
    if located.span is None or located.source is not None:
        return located
    return replace(located, source=source_of(current_module(), located.span.source_name))


def _write(text: str, file: TextIO) -> None:
    encoding = file.encoding or "utf-8"
    try:
        # Characters that the encoding lacks are written as escapes, as in Python's tracebacks.
        file.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
    except Exception as error:
        error.add_note(f"these diagnostics could not be written:\n{text}")
        raise


@dataclass(slots=True)
class _Pending:
    """The pending diagnostics, and the number of dropped ones of each level."""

    pending: list[Diagnostic] = field(default_factory=list[Diagnostic])
    dropped: Counter[DiagnosticLevel] = field(default_factory=Counter[DiagnosticLevel])
    has_error: bool = False

    def add(self, diagnostic: Diagnostic, limit: int) -> None:
        is_error = diagnostic.level is DiagnosticLevel.ERROR
        if len(self.pending) < limit:
            self.pending.append(diagnostic)
        elif is_error and not self.has_error:
            # The first error replaces the last diagnostic: a flood of warnings must not hide it.
            self.dropped[self.pending[-1].level] += 1
            self.pending[-1] = diagnostic
        else:
            self.dropped[diagnostic.level] += 1
        self.has_error = self.has_error or is_error
