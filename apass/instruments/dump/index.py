"""Index files of a dump: one of the passes of each module, and one of the modules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apass.core.position import Position
from apass.instruments.support.outcomes import CANCELLED

__all__ = ["DumpEntry", "module_index", "top_index"]


@dataclass(frozen=True, slots=True)
class DumpEntry:
    """One run of a pass in an index."""

    position: Position
    """The position of the pass."""
    seconds: float
    """How long it took."""
    changed: bool
    """Whether the pass itself changed its module, rather than a pass within it."""
    file: str | None
    """The file with the result, relative to the dump folder, or None if the pass failed."""
    failure: str | None
    """The error, or `CANCELLED`; None if the pass succeeded."""


def module_index(title: str, entries: Sequence[DumpEntry]) -> tuple[str, str]:
    """Return the text of a module's index, and its line for the index of modules."""
    ordered = sorted(entries, key=lambda entry: entry.position.order)
    failed = [entry for entry in ordered if entry.failure]
    seconds = sum(entry.seconds for entry in ordered if len(entry.position.steps) == 1)
    changed = sum(entry.changed for entry in ordered)
    summary = f"{len(ordered)} passes, {changed} changed something, {seconds:.3f} s"
    if failed:
        failure = failed[-1].failure
        summary += f", {CANCELLED}" if failure == CANCELLED else f", failed: {failure}"
    rows = [("ms", "", "pass", "file"), *map(_row, ordered)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}".rstrip() for row in rows]
    return "\n".join([title, summary, "", *lines, ""]), summary


def top_index(summaries: Mapping[str | None, str]) -> str:
    """Return the text of the index of modules, sorted by name."""
    named = sorted((name or "", summary) for name, summary in summaries.items())
    width = max(len(name) for name, _ in named)
    return "".join(f"{name:<{width}}  {summary}".lstrip() + "\n" for name, summary in named)


def _row(entry: DumpEntry) -> tuple[str, str, str, str]:
    number, name, _ = entry.position.steps[-1]
    above = entry.position.steps[-2][2] if len(entry.position.steps) > 1 else None
    shown = f"{'  ' * (len(entry.position.steps) - 1)}{number}:{name}" + (f" (in {above})" if above else "")
    is_cancelled = entry.failure == CANCELLED
    mark = CANCELLED if is_cancelled else "failed" if entry.failure else "changed" if entry.changed else ""
    failure = "" if is_cancelled else entry.failure or ""
    return f"{entry.seconds * 1000:.3f}", mark, shown, entry.file or failure
