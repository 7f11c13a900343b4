"""The display of a run: a progress bar, a table of results, and the failures."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, ClassVar, Final, Self

import typer
from rich.console import Console
from rich.text import Text

from apass.cli.errors import failure_text, kind_of
from apass.cli.inputs import Job
from apass.cli.instruments import RunObserver
from apass.cli.optimize import JobResult
from apass.cli.output_files import OutputError
from apass.cli.panels import OUTPUT
from apass.cli.terminal import Color, ColorOption, OutputFormat, print_error, safe_markup, safe_name
from apass.core.diagnostic_context import DiagnosticContext
from apass.errors import InputError
from apass.instruments.support.table_layout import Column, fitted_table, keep_ends
from apass.util.printable import printable

__all__ = ["DisplayOptions", "Reporter", "RunDisplay"]

_MAX_ROWS: Final = 40
"""Rows of the table with all models. A longer table shows failures and changes; on a terminal, the largest ones."""

_MAX_PASSES: Final = 3
"""Passes that a row names; the others are counted."""

_UNLIMITED_WIDTH: Final = 10_000
"""Columns of the table in a pipe or a file; wide enough for any row."""
_MOST_PADDING: Final = 60
"""Width up to which the cells of a table in a pipe or a file are padded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayOptions:
    """The options of the display; a dataclass for `with_options`."""

    PANEL: ClassVar[str] = OUTPUT

    output_format: Annotated[
        OutputFormat,
        typer.Option(
            "--output-format",
            help="Print a table, or a line of JSON for each model and everything else on standard error.",
        ),
    ] = OutputFormat.TEXT
    all_models: Annotated[
        bool, typer.Option("--all", help=f"List all models, also those of more than {_MAX_ROWS} that did not change.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print failures only, on standard error.")] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Print the traceback of each failure, and all passes that changed a model."
        ),
    ] = False
    color: ColorOption = Color.AUTO
    """Whether the output has colours; the callback of the option sets it."""

    def check(self) -> None:
        """Raise InputError if options exclude each other."""
        if self.quiet and (self.verbose or self.all_models):
            raise InputError(f"--quiet and {'--verbose' if self.verbose else '--all'} cannot be used together")


class _Bar:
    """The progress bar on a terminal."""

    def __init__(self, terminal: Console, total: int) -> None:
        # In a pipe or a file, there is no bar.
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[phases]}"),
            console=terminal,
            transient=True,
        )
        self._task = self.progress.add_task("optimizing", total=total, phases="")

    def update(self, **values: Any) -> None:
        """Change the fields of the bar."""
        self.progress.update(self._task, **values)


_RESULT_WIDTH: Final = len("ok by an earlier run")
"""Width up to which a result is not shortened."""


class Reporter:
    """Progress bar on standard error, table of results on standard output.

    Parameters:
        total: the number of models.
        options: the options of the display.
        bar: whether a terminal has a progress bar.
        renamed: replaces the temporary files in the text of diagnostics.

    """

    def __init__(
        self, total: int, options: DisplayOptions, *, bar: bool = True, renamed: Callable[[str], str] = str
    ) -> None:
        self.results: list[JobResult] = []
        """The result of each file, in the order of completion."""
        self._out = Console(highlight=False)
        # Not `is_terminal`, which `--color always` sets for a pipe, too.
        self._is_narrow = self._out.file.isatty() or "COLUMNS" in os.environ
        if not self._is_narrow:
            # In a pipe or a file, each row is one line, so that `grep` and `cut` work. Rich would wrap at 80 columns.
            self._out = Console(highlight=False, width=_UNLIMITED_WIDTH)
        terminal = Console(stderr=True)
        has_bar = bar and terminal.is_terminal and terminal.file.isatty() and not options.quiet
        self._bar = _Bar(terminal, total) if has_bar else None
        self._options = options
        self._renamed = renamed
        self._phases: dict[str, str] = {}
        self._total = total

    @property
    def is_complete(self) -> bool:
        """Whether every file has a result."""
        return len(self.results) == self._total and not self.failures

    @property
    def failures(self) -> list[JobResult]:
        """The files without a result."""
        return [result for result in self.results if result.error is not None]

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.progress.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.progress.stop()

    def phase(self, job: Job, phase: str) -> None:
        """Show the current phase of a file."""
        if self._bar is None:
            return
        self._phases.pop(job.name, None)
        if phase != "done":
            self._phases[job.name] = phase
        counts = Counter(self._phases.values())
        self._bar.update(phases=", ".join(f"{count} {name}" for name, count in counts.items()))

    def result(self, result: JobResult) -> None:
        """Count a file as done."""
        self.results.append(result)
        if self._bar is not None:
            self._bar.update(advance=1)

    def show(self, text: str) -> None:
        """Print plain text below the table."""
        self._out.print(safe_markup(text), soft_wrap=True)

    def summarize(self, diagnostics: DiagnosticContext) -> None:
        """Print the table, the diagnostics, each failure with its notes, and the totals."""
        is_verbose = self._options.verbose
        if self._options.quiet:
            for failed in self.failures:
                assert failed.error is not None
                text = failure_text(failed.job.name, failed.error, has_traceback=is_verbose)
                Console(stderr=True, highlight=False).print(text, soft_wrap=True)
            return
        rows = sorted(self.results, key=lambda result: result.job.name)
        has_all = self._options.all_models or len(rows) <= _MAX_ROWS
        notable = rows if has_all else [row for row in rows if row.changed or row.error is not None]
        shown = _most_relevant(notable) if self._is_narrow and not has_all else notable
        if shown:
            self._out.print(_table(shown, self._out.width, is_verbose))
        for text in _omitted(rows, notable, shown):
            self._out.print(f"[dim]{text}[/]")
        if diagnostics.diagnostics:
            self.show(self._renamed(diagnostics.rendered()))
        for result in rows:
            if result.is_unverified:
                text = f"{safe_name(result.job.name)}: {safe_markup(result.remark)}"
                self._out.print(f"[yellow]{text}[/]", soft_wrap=True)
        for failed in self.failures:
            assert failed.error is not None
            text = failure_text(failed.job.name, failed.error, has_traceback=is_verbose)
            self._out.print(text, soft_wrap=True)
            if self._is_redirected():
                Console(stderr=True, highlight=False).print(text, soft_wrap=True)
        self._out.print(_totals(self.results, self._total), soft_wrap=True)

    def _is_redirected(self) -> bool:
        """Return whether standard output is no terminal, nor standard error."""
        if self._out.file.isatty():
            return False
        try:
            return not os.path.samestat(os.fstat(self._out.file.fileno()), os.fstat(sys.stderr.fileno()))
        except (OSError, AttributeError):
            # A stream in memory, or none.
            return self._out.file is not sys.stderr


def _omitted(rows: Sequence[JobResult], notable: Sequence[JobResult], shown: Sequence[JobResult]) -> Iterator[str]:
    """Iterate over the lines that count the models without a row."""
    if len(shown) < len(notable):
        yield f"and {len(notable) - len(shown)} more that changed; --all lists them"
    if len(notable) < len(rows):
        earlier = sum(row.is_earlier for row in rows)
        unchanged = len(rows) - len(notable) - earlier
        counts = {"did not change": unchanged, "an earlier run has written": earlier}
        texts = [f"{count} models that {text}" for text, count in counts.items() if count]
        yield f"and {', and '.join(texts)}; --all lists them"


def _table(results: Sequence[JobResult], width: int, has_all_passes: bool) -> Text:
    """Return the table of results, which has fewer columns if it is narrow."""
    names = [result.job.name for result in results]
    ending = _common_ending(names)
    title = f"model ({printable(ending)})" if ending else "model"
    model = Column(title=title, cells=[printable(name.removesuffix(ending)) for name in names], shorten=keep_ends)
    outcomes = [_outcome(result) for result in results]
    status = max(max(len(outcome.partition(" ")[0]), min(len(outcome), _RESULT_WIDTH)) for outcome in outcomes)
    columns = [
        Column(title="nodes", cells=[_change(result.before, result.after) for result in results], justify="right"),
        Column(
            title="bytes",
            cells=[_change(result.bytes_before, result.bytes_after) for result in results],
            justify="right",
        ),
        Column(title="seconds", cells=[f"{result.seconds:.3f}" for result in results], justify="right"),
        Column(
            title="result",
            cells=outcomes,
            smallest=status,
            style=lambda row: _style(results[row]),
        ),
    ]
    passes = [_passes(result, has_all_passes) for result in results]
    if any(passes):
        columns.append(Column(title="changed by", cells=passes, smallest=len("changed by")))
    padding = _MOST_PADDING if width == _UNLIMITED_WIDTH else None
    drop = ("seconds", "bytes", "changed by", "nodes", "result")
    return fitted_table(model, columns, width, drop=drop, padding=padding)


def _style(result: JobResult) -> str:
    if result.error is not None:
        return "red"
    return "yellow" if result.is_unverified else "green"


def _outcome(result: JobResult) -> str:
    if result.error is not None:
        return printable(kind_of(result.error))
    if result.is_unverified:
        return "not verified"
    count = sum(result.cached.values())
    cached = f"{count} cached" if count else ""
    return " ".join(("ok", ", ".join(filter(None, (printable(result.remark), cached))))).rstrip()


def _passes(result: JobResult, has_all: bool) -> str:
    """Return the passes that changed a model, most changes first."""
    names = sorted(result.changed_by, key=lambda name: -result.changed_by[name])
    shown = names if has_all else names[:_MAX_PASSES]
    texts = [_pass(name, result.changed_by[name], result.cached.get(name, 0)) for name in shown]
    if len(shown) < len(names):
        texts.append(f"{len(names) - len(shown)} more")
    return printable(", ".join(texts))


def _pass(name: str, changes: int, cached: int) -> str:
    """Return the name of a pass that changed a model, with the number of changes."""
    count = "" if changes == 1 else f" x{changes}"
    return f"{name}{count} (cached)" if cached >= changes else f"{name}{count}"


def _change(before: int | None, after: int | None) -> str:
    if before is None or after is None or before == after:
        return "" if before is None else f"{before:,}"
    return f"{before:,} -> {after:,}"


def _common_ending(names: Sequence[str]) -> str:
    """Return `/NAME` if the models have the same file name in different folders.

    Otherwise return an empty string.
    """
    suffixes = {os.sep + Path(name).name if os.sep in name else "" for name in names}
    return suffixes.pop() if len(names) > 1 and len(suffixes) == 1 else ""


def _most_relevant(results: list[JobResult]) -> list[JobResult]:
    """Return the failures and the largest changes, in the order of `results`."""
    ranked = sorted(results, key=lambda result: (result.error is None, (result.after or 0) - (result.before or 0)))
    chosen = {id(result) for result in ranked[:_MAX_ROWS]}
    return [result for result in results if id(result) in chosen]


def _totals(results: list[JobResult], total: int) -> str:
    done = [result for result in results if result.error is None]
    before = sum(result.before or 0 for result in done)
    after = sum(result.after or 0 for result in done)
    text = f"{len(done)} of {total} models written, {before} nodes before, {after} after"
    failed = len(results) - len(done)
    missing = total - len(results)
    return text + (f", [red]{failed} failed[/]" if failed else "") + (f", {missing} not done" if missing else "")


class RunDisplay:
    """The reporter and the observers of a run.

    Parameters:
        reporter: the reporter.
        observers: the observers.
        data: what prints the output of the observers that other programs read, in place of the reporter.

    """

    def __init__(
        self, reporter: Reporter, observers: Sequence[RunObserver], data: Mapping[RunObserver, Callable[[str], None]]
    ) -> None:
        self._reporter = reporter
        self._observers = observers
        self._data = data
        self.failed_outputs = 0
        """Number of observers whose output could not be written."""

    @property
    def is_complete(self) -> bool:
        """Whether every file has a result."""
        return self._reporter.is_complete

    def phase(self, job: Job, phase: str) -> None:
        """Report the current phase of a file."""
        self._reporter.phase(job, phase)
        for observer in self._observers:
            observer.phase(job, phase)

    def result(self, result: JobResult) -> None:
        """Report the result of a file."""
        self._reporter.result(result)
        for observer in self._observers:
            observer.result(result)

    def _finish(self, observer: RunObserver) -> None:
        """Let an observer write its output; if it cannot, print an error."""
        try:
            observer.finish(self._data.get(observer, self._reporter.show))
        except OutputError as error:
            self.failed_outputs += 1
            print_error(str(error))

    @contextmanager
    def closing(self, diagnostics: DiagnosticContext) -> Generator[None]:
        """Display the run in the block.

        At its end, also after an error, print the table and the output of the observers.
        """
        with ExitStack() as closing:
            # Callbacks run in reverse order of registration: the table first, then the observers from first to last.
            for observer in reversed(self._observers):
                closing.callback(self._finish, observer)
            closing.callback(self._reporter.summarize, diagnostics)
            for observer in self._observers:
                observer.begin()
            with self._reporter:
                yield
