"""`render_text`: the differences of two runs as text for a terminal."""

from collections.abc import Iterable, Iterator, Sequence
from math import isinf
from typing import Final

from apass.debugging.run_diff.diff import Regression, RunDiff, milliseconds
from apass.debugging.run_diff.module_change import ModuleChange, ResultChange
from apass.debugging.run_diff.times import TimeChange, TimeVerdict
from apass.util.printable import printable
from apass.util.text import aligned_rows, count_of

__all__ = ["RESULTS", "SAMPLES_NOTE", "render_text", "time_rows"]

RESULTS: Final = {
    ResultChange.EQUAL: "the result is equal",
    ResultChange.DIFFERENT: "the result differs",
    ResultChange.FAILED: "fails in the second run only",
    ResultChange.FIXED: "fails in the first run only",
    ResultChange.UNKNOWN: "a result is not recorded",
}
"""What is known about the results of a module."""
SAMPLES_NOTE: Final = "too few samples to separate noise from change; repeat each run, at least 5 times"
"""The note below times without a verdict."""
_MOST_ITEMS: Final = 10
"""Number of remarks, or of passes without a verdict, that are shown."""
_MOST_MODULES: Final = 50
"""Number of modules that are shown."""
_SIDES: Final = ("first", "second")


def render_text(diff: RunDiff, regressions: Sequence[Regression] = ()) -> str:
    """Return the differences as text of several lines.

    Long lists are cut. `RunDiff.as_json` and the page have all of their items.
    """
    # A line break in a name, which a record of a stranger may have, could forge a line.
    return "\n".join(printable(line, "\t") for line in _lines(diff, regressions))


def time_rows(diff: RunDiff) -> list[tuple[str, ...]]:
    """Return the rows of the table of times, with a heading."""
    times = [] if diff.total is None else [diff.total, *diff.times]
    return [("first", "second", "ratio", "p", "verdict", "pass"), *map(_time_row, times)]


def _lines(diff: RunDiff, regressions: Sequence[Regression]) -> Iterator[str]:
    for side, source in zip(_SIDES, diff.sources, strict=True):
        yield f"{side + ':':8}{source}"
    yield str(diff)
    for side, names in zip(_SIDES, (diff.only_first, diff.only_second), strict=True):
        yield from _cut(f"only in the {side} run: {name}" for name in names)
    for name, first, second in diff.settings:
        yield f"{name}: {'none' if first is None else first} -> {'none' if second is None else second}"
    yield from (f"note: {note}" for notes in diff.notes for note in notes)
    for change in diff.changes[:_MOST_MODULES]:
        yield ""
        yield from _module_lines(change)
    if len(diff.changes) > _MOST_MODULES:
        yield ""
        yield f"and {len(diff.changes) - _MOST_MODULES:,} more modules with differences"
    if diff.total is not None:
        yield ""
        yield from _time_lines(diff)
    if regressions:
        yield ""
        yield from (f"regression: {regression}" for regression in regressions)


def _module_lines(change: ModuleChange) -> Iterator[str]:
    yield f"{change.name}: {RESULTS[change.result]}"
    if change.has_other_input:
        yield "  the inputs differ, so other differences may follow from that"
    for side, is_repeatable in zip(_SIDES, change.are_repeatable, strict=True):
        if not is_repeatable:
            yield f"  the repetitions of the {side} run have different results"
    for sign, failure in zip("-+", change.failures, strict=True):
        if failure is not None and change.result is not ResultChange.EQUAL:
            yield from (f"  {sign} {line}" for line in failure.splitlines()[:1])
    if change.first_difference is not None:
        yield f"  first pass that differs: {change.first_difference}"
        yield from (f"    {line}" for line in change.first_difference.diff.splitlines())
    yield from (f"  {number}" for number in (*change.sizes, *change.statistics))
    for sign, remarks in zip("-+", change.remarks, strict=True):
        yield from _cut(f"  {sign} remark {remark}" for remark in remarks)


def _time_lines(diff: RunDiff) -> Iterator[str]:
    rows = time_rows(diff)
    if diff.can_judge_times:
        shown = [time.verdict in (TimeVerdict.SLOWER, TimeVerdict.FASTER) for time in diff.times]
    else:
        shown = [index < _MOST_ITEMS for index in range(len(diff.times))]
    shown = [is_shown or None in time.medians for is_shown, time in zip(shown, diff.times, strict=True)]
    kept = [*rows[:2], *(row for row, is_shown in zip(rows[2:], shown, strict=True) if is_shown)]
    yield from aligned_rows([tuple(map(printable, row)) for row in kept], numbers=4).splitlines()
    left_out = len(rows) - len(kept)
    if left_out:
        yield f"and {left_out:,} more pass{'' if left_out == 1 else 'es'}" + (
            ", whose times show no change" if diff.can_judge_times else ""
        )
    first, second = diff.samples
    yield (
        f"medians of {first} and {second} samples"
        if diff.can_judge_times
        else (f"{count_of(first, 'sample')} of the first run, {second} of the second: {SAMPLES_NOTE}")
    )


def _time_row(change: TimeChange) -> tuple[str, ...]:
    first, second = change.medians
    ratio = change.ratio
    if first is None or second is None:
        verdict = f"only in the {'second' if first is None else 'first'}"
    else:
        verdict = change.verdict.value
    return (
        milliseconds(first),
        milliseconds(second),
        "" if ratio is None or isinf(ratio) else f"x {ratio:.2f}",
        "" if change.verdict is TimeVerdict.UNKNOWN else f"{change.p_value:.3f}",
        verdict,
        change.name,
    )


def _cut(lines: Iterable[str]) -> Iterator[str]:
    """Iterate over the first lines, and the number of the others."""
    left_out = 0
    for index, line in enumerate(lines):
        if index < _MOST_ITEMS:
            yield line
        else:
            left_out += 1
    if left_out:
        yield f"  and {left_out:,} more"
