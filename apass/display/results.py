"""Blocks of outcomes, measurements, remarks and diagnostics."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from apass.batch.stream import Outcome
from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic
from apass.core.remarks import Remark, RemarkKind
from apass.debugging.bisect import Bisected
from apass.display.blocks import Bar, Block, Code, Fold, Group, Line, Page, Row, Span, Style, Table
from apass.display.highlight import highlight_diagnostics, plain_lines
from apass.display.modules import describe_diff, describe_module
from apass.instruments.memory import PassMemory
from apass.instruments.report.instrument import ReportInstrument
from apass.instruments.statistics import PassStatistic
from apass.instruments.timing.tables import FunctionTiming, PassTiming
from apass.util.text import count_of, shorten

__all__ = [
    "describe_bisected",
    "describe_diagnostics",
    "describe_functions",
    "describe_memory",
    "describe_outcome",
    "describe_outcomes",
    "describe_remarks",
    "describe_report",
    "describe_statistics",
    "describe_timings",
]

MAX_ROWS: Final = 1_000
"""The number of rows that are shown of a table."""

_REMARKS: Final[dict[RemarkKind, Style]] = {
    RemarkKind.PASSED: "good",
    RemarkKind.MISSED: "warning",
    RemarkKind.ANALYSIS: "note",
}


def describe_outcomes(outcomes: Sequence[Outcome[Any]]) -> Block:
    """Return a table of outcomes, failures first."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    resumed = sum(outcome.resumed for outcome in outcomes)
    heading: list[Span] = [Span(count_of(len(outcomes), "module"), "name")]
    heading += [Span(f"  {len(failed)} failed", "bad")] if failed else []
    heading += [Span(f"  {resumed} resumed", "note")] if resumed else []
    longest = max((outcome.seconds for outcome in outcomes), default=0.0)
    ordered = [*failed, *(outcome for outcome in outcomes if outcome.error is None)]
    rows = [
        Row([(Span(f"{outcome.seconds:.3f}"),), Bar(_share(outcome.seconds, longest), 0.0), _outcome_line(outcome)])
        for outcome in ordered
    ]
    return Group([tuple(heading), _limited(Table(["seconds", "", "module"], rows, numbers=1))])


def describe_outcome(outcome: Outcome[Any]) -> Block:
    """Return the result of a module, or its error with the notes."""
    title = (*_outcome_line(outcome), Span(f"  {outcome.seconds:.3f} s", "muted"))
    if outcome.error is None:
        return Fold(title, describe_module(outcome.module))
    notes: list[str] = getattr(outcome.error, "__notes__", [])
    lines = [line for note in notes for line in plain_lines(str(note))]
    return Fold(title, Code([(Span(line, "muted"),) for line in lines])) if lines else title


def _outcome_line(outcome: Outcome[Any]) -> Line:
    name = Span(f" {outcome.name}", "name")
    if outcome.error is not None:
        reason = shorten(f"{type(outcome.error).__name__}: {outcome.error}")
        return (Span("failed", "bad"), name, Span(f"  {reason}"))
    return (Span("resumed" if outcome.resumed else "done", "note" if outcome.resumed else "good"), name)


def describe_timings(timings: Sequence[PassTiming]) -> Block:
    """Return a table of passes with bars for work and waiting."""
    if not timings:
        return (Span("no pass was timed", "muted"),)
    longest = max(timing.wall for timing in timings)
    return _limited(Table(_TIMES, list(_timing_rows(timings, None, longest, 0)), numbers=3))


_TIMES: Final = ("wall ms", "busy ms", "waiting ms", "busy, waiting", "pass")
_NOTABLE: Final = 0.01
"""Hooks of instruments have a row of their own if they took more than this share of the longest time."""
_COUNTS: Final = ("calls", "failed", "unfinished")


def _timing_rows(timings: Iterable[PassTiming], module: str | None, longest: float, depth: int) -> Iterator[Row]:
    for timing in timings:
        counts = (timing.calls if timing.calls > 1 else 0, timing.failed, timing.unfinished)
        notes = [
            f"{count} {noun}" for count, noun in zip(counts, ("calls", "failed", "unfinished"), strict=True) if count
        ]
        label: Line = (Span(timing.name, "name"),)
        if timing.module is not None and timing.module != module:
            label = (*label, Span(f"  module {timing.module!r}", "muted"))
        if notes:
            label = (*label, Span(f"  {', '.join(notes)}", "bad" if timing.failed else "muted"))
        yield _times_row(timing.wall, timing.busy, longest, label, depth)
        yield from _timing_rows(timing.children, timing.module, longest, depth + 1)
        if timing.hooks_wall > _NOTABLE * longest:
            hooks = (Span("(hooks of instruments)", "muted"),)
            yield _times_row(timing.hooks_wall, timing.hooks_busy, longest, hooks, depth + 1)


def _times_row(wall: float, busy: float, longest: float, label: Line, depth: int = 0) -> Row:
    times: list[Line] = [(Span(f"{seconds * 1000:.3f}"),) for seconds in (wall, busy, wall - busy)]
    return Row([*times, Bar(_share(busy, longest), _share(wall - busy, longest)), label], depth)


def describe_functions(timings: Sequence[FunctionTiming]) -> Block:
    """Return a table of functions with bars for work and waiting."""
    if not timings:
        return (Span("no function was timed", "muted"),)
    longest = max(timing.wall for timing in timings)
    rows: list[Row] = []
    for timing in timings:
        module = () if timing.module is None else (Span(f"{timing.module}:", "muted"),)
        failed = (Span("  failed", "bad"),) if timing.failed else ()
        label = (*module, Span(timing.function, "name"), Span(f"  {timing.path}", "muted"), *failed)
        rows.append(_times_row(timing.wall, timing.busy, longest, label))
    return _limited(Table((*_TIMES[:-1], "function"), rows, numbers=3))


def describe_memory(items: Sequence[PassMemory]) -> Block:
    """Return a table of passes with their memory in MiB."""
    highest = max((item.peak for item in items), default=0)
    rows = [
        Row(
            [
                (Span(f"{item.peak / 2**20:.3f}"),),
                (Span(f"{item.grown / 2**20:.3f}"),),
                (Span(str(item.calls)),),
                Bar(_share(item.peak, highest), 0.0),
                (Span(item.name, "name"),),
            ]
        )
        for item in items
    ]
    return _limited(Table(["peak MiB", "grown MiB", "calls", "peak", "pass"], rows, numbers=3))


def describe_statistics(items: Sequence[PassStatistic]) -> Block:
    """Return a table of statistics, grouped by pass."""
    if not items:
        return (Span("no pass counted anything", "muted"),)
    rows: list[Row] = []
    for name, group in groupby(items, key=lambda item: item.pass_name):
        rows.append(Row([(), (Span(name or "outside of any pass", "name"),)]))
        rows += (Row([(Span(f"{item.amount:g}"),), (Span(item.name),)], 1) for item in group)
    return _limited(Table(["amount", "statistic"], rows, numbers=1))


def describe_remarks(remarks: Sequence[Remark], dropped: int = 0) -> Block:
    """Return a table of remarks."""
    if not remarks:
        return (Span("no pass made a remark", "muted"),)
    rows = [
        Row(
            [
                (Span(remark.kind.value, _REMARKS[remark.kind]),),
                (Span(remark.name, "name"),),
                (Span(remark.pass_name or ""),),
                (Span(":".join(filter(None, (remark.module, remark.function)))),),
                (Span(shorten(remark.message)), *_location(remark)),
            ]
        )
        for remark in remarks
    ]
    table = _limited(Table(["kind", "remark", "pass", "function", "message"], rows))
    return Group([table, (Span(f"{dropped:,} more exceeded the limit", "warning"),)]) if dropped else table


def _location(remark: Remark) -> Line:
    span = remark.span
    return () if span is None else (Span(f"  {span.source_name}:{span.line}:{span.column}", "muted"),)


def describe_diagnostics(context: DiagnosticContext | Sequence[Diagnostic]) -> Block:
    """Return diagnostics with their source excerpts."""
    if not isinstance(context, DiagnosticContext):
        diagnostics, context = context, DiagnosticContext()
        for diagnostic in diagnostics:
            context.emit(diagnostic)
    if not context.diagnostics:
        return (Span("no diagnostics are pending", "muted"),)
    return highlight_diagnostics(context)


def describe_report(report: ReportInstrument) -> Page:
    """Return the page of a report."""
    record = report.record()
    modules = len({run.module for run in record.runs} | set(record.failures))
    runs = f"{count_of(len(record.runs), 'run')} of passes on {count_of(modules, 'module')}"
    advice = Span('  write the page with `await report.write("report.html")`', "muted")
    return Page((Span(record.title, "name"), Span(f"  {runs}"), advice), report.render())


def describe_bisected(found: Bisected[Any]) -> Block:
    """Return the first bad pass, and its change."""
    return Group([(Span(str(found), "bad"),), describe_diff(found.before, found.after, 3)])


def _share(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole else 0.0


def _limited(table: Table) -> Block:
    """Return a table, with a line for the rows beyond the limit."""
    if len(table.rows) <= MAX_ROWS:
        return table
    more = (Span(f"... and {count_of(len(table.rows) - MAX_ROWS, 'more row')}", "muted"),)
    return Group([Table(table.head, table.rows[:MAX_ROWS], table.numbers), more])
