"""What a user sees of a run: a progress bar while it lasts, a table of what came of it, and each failure in full."""

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from apass.cli.inputs import Job
from apass.cli.optimize import JobResult
from apass.core.diagnostics import DiagnosticContext

__all__ = ["Reporter"]

_MOST_ROWS: Final = 40
"""A longer table shows failures and what changed most, on a terminal."""

_NO_WIDTH: Final = 10_000
"""Wide enough for any row."""


class Reporter:
    """Shows a run on the terminal: the bar on standard error, the table on standard output."""

    def __init__(self, total: int, *, bar: bool = True) -> None:
        self.results: list[JobResult] = []
        """What came of each file, in the order of finishing."""
        self._out = Console(highlight=False)
        self._is_narrow = self._out.is_terminal or "COLUMNS" in os.environ
        if not self._is_narrow:
            # In a pipe or a file a row is a line, however long.
            self._out = Console(highlight=False, width=_NO_WIDTH)
        terminal = Console(stderr=True)
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[at_work]}"),
            console=terminal,
            transient=True,
            disable=not (bar and terminal.is_terminal),
        )
        self._bar = self._progress.add_task("optimizing", total=total, at_work="")
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
        self._progress.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._progress.stop()

    def phase(self, job: Job, phase: str) -> None:
        """Show what is being done to a file."""
        self._phases.pop(job.name, None)
        if phase != "done":
            self._phases[job.name] = phase
        counts = {one: list(self._phases.values()).count(one) for one in dict.fromkeys(self._phases.values())}
        at_work = ", ".join(f"{count} {one}" for one, count in counts.items())
        self._progress.update(self._bar, at_work=at_work)

    def result(self, result: JobResult) -> None:
        """Count a file as done."""
        self.results.append(result)
        self._progress.update(self._bar, advance=1)

    def show(self, text: str) -> None:
        """Print plain text below the table."""
        self._out.print(escape(text), soft_wrap=True)

    def summarize(self, diagnostics: DiagnosticContext) -> None:
        """Print the table, what passes had to say, each failure with its notes, and the totals."""
        if self.results:
            rows = sorted(self.results, key=lambda result: result.job.name)
            shown = _most_telling(rows) if self._is_narrow else rows
            self._out.print(_table(shown))
            if len(shown) < len(rows):
                self._out.print(f"[dim]and {len(rows) - len(shown)} more; a pipe or a file gets them all[/]")
        if diagnostics.diagnostics:
            self.show(diagnostics.rendered())
        for failed in self.failures:
            self._out.print(_failure(failed), soft_wrap=True)
        self._out.print(_totals(self.results, self._total), soft_wrap=True)


def _table(results: Sequence[JobResult]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    ending = _common_ending([one.job.name for one in results])
    table.add_column(f"model ({escape(ending)})" if ending else "model", overflow="fold")
    for column in ("before", "after", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("result", overflow="ellipsis", no_wrap=True)
    for one in results:
        outcome = f"[red]{type(one.error).__name__}[/]" if one.error else f"[green]ok[/] {escape(one.remark)}".rstrip()
        name = escape(one.job.name.removesuffix(ending))
        table.add_row(name, _number(one.before), _number(one.after), f"{one.seconds:.3f}", outcome)
    return table


def _common_ending(names: Sequence[str]) -> str:
    """Return the file's name with the slash before it, if all have the same in folders of their own; else nothing."""
    endings = {os.sep + Path(name).name if os.sep in name else "" for name in names}
    return endings.pop() if len(names) > 1 and len(endings) == 1 else ""


def _most_telling(results: list[JobResult]) -> list[JobResult]:
    """Return failures first, then the files that lost most nodes, in the order of names."""
    ranked = sorted(results, key=lambda one: (one.error is None, (one.after or 0) - (one.before or 0)))
    chosen = {id(one) for one in ranked[:_MOST_ROWS]}
    return [one for one in results if id(one) in chosen]


def _failure(result: JobResult) -> str:
    assert result.error is not None
    first, *rest = map(escape, _lines(result.error))
    return "\n".join([f"[red]failed[/] {escape(result.job.name)}: {first}", *rest])


def _lines(error: BaseException) -> Iterator[str]:
    """Give an error, its notes, and what it is made of if it is a group, each level further in."""
    yield f"{type(error).__name__}: {error}"
    notes: list[str] = getattr(error, "__notes__", [])
    inner = cast("BaseExceptionGroup[BaseException]", error).exceptions if isinstance(error, BaseExceptionGroup) else ()
    for text in chain(notes, *map(_lines, inner)):
        yield from (f"    {line}" for line in text.splitlines())


def _totals(results: list[JobResult], total: int) -> str:
    done = [one for one in results if one.error is None]
    before = sum(one.before or 0 for one in done)
    after = sum(one.after or 0 for one in done)
    text = f"{len(done)} of {total} models written, {before} nodes before, {after} after"
    failed = len(results) - len(done)
    missing = total - len(results)
    return text + (f", [red]{failed} failed[/]" if failed else "") + (f", {missing} not done" if missing else "")


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
