"""The indexes of a dump: of the passes of one module, and of the modules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apass.core.position import Position
from apass.instruments.support.outcomes import CANCELLED

__all__ = ["Entry", "module_index", "top_index"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One run of a pass in an index."""

    position: Position
    """Where it stands."""
    seconds: float
    """How long it took."""
    changed: bool
    """Whether it changed its module itself."""
    file: str | None
    """Where what it returned is, from the top of the dump; None if it failed."""
    failure: str | None
    """What it failed with, or that it was cancelled; None if it did not."""


def module_index(title: str, entries: Sequence[Entry]) -> tuple[str, str]:
    """Return the index of one module, and the line about it in the index of modules."""
    ordered = sorted(entries, key=lambda one: one.position.order)
    failed = [one for one in ordered if one.failure]
    seconds = sum(one.seconds for one in ordered if len(one.position.steps) == 1)
    changed = sum(one.changed for one in ordered)
    summary = f"{len(ordered)} passes, {changed} changed something, {seconds:.3f} s"
    if failed:
        what = failed[-1].failure
        summary += f", {CANCELLED}" if what == CANCELLED else f", failed: {what}"
    rows = [("ms", "", "pass", "file"), *map(_row, ordered)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}".rstrip() for row in rows]
    return "\n".join([title, summary, "", *lines, ""]), summary


def top_index(summaries: Mapping[str | None, str]) -> str:
    """Return the index of modules, by name."""
    named = sorted((name or "", summary) for name, summary in summaries.items())
    width = max(len(name) for name, _ in named)
    return "".join(f"{name:<{width}}  {summary}".lstrip() + "\n" for name, summary in named)


def _row(entry: Entry) -> tuple[str, str, str, str]:
    number, name, _ = entry.position.steps[-1]
    above = entry.position.steps[-2][2] if len(entry.position.steps) > 1 else None
    shown = f"{'  ' * (len(entry.position.steps) - 1)}{number}:{name}" + (f" (in {above})" if above else "")
    is_cancelled = entry.failure == CANCELLED
    mark = CANCELLED if is_cancelled else "failed" if entry.failure else "changed" if entry.changed else ""
    told = "" if is_cancelled else entry.failure or ""
    return f"{entry.seconds * 1000:.3f}", mark, shown, entry.file or told
