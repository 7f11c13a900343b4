"""`render_page`: the differences of two runs as a self-contained HTML page."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from typing import Final

from apass.debugging.run_diff.diff import Regression, RunDiff
from apass.debugging.run_diff.module_change import ModuleChange, ResultChange
from apass.debugging.run_diff.text import RESULTS, SAMPLES_NOTE, time_rows
from apass.util.printable import LAYOUT, printable

__all__ = ["render_page"]

_MOST_MODULES: Final = 1000
"""Maximum number of modules on the page; a browser is slow with more."""
_STYLE: Final = (
    ".diff{max-width:1100px;margin:0 auto;padding:20px 16px 60px}.diff p{margin:6px 0}"
    "h1{font-size:18px;overflow-wrap:anywhere}h2{font-size:15px;margin:28px 0 8px}"
    "table{width:auto;background:var(--panel);border:1px solid var(--border)}"
    "td{padding:3px 12px;white-space:normal;overflow-wrap:anywhere}th{padding:3px 12px}"
    "td.n{white-space:nowrap;font-family:var(--mono)}"
    "pre{font:12px/1.45 var(--mono);overflow-x:auto;background:var(--panel);border:1px solid var(--border);padding:8px}"
    "pre span{display:block}.add{background:var(--added)}.del{background:var(--removed)}.hunk{color:var(--muted)}"
    "details{margin:4px 0;padding:4px 10px;background:var(--panel);border:1px solid var(--border)}"
    "summary{cursor:pointer;overflow-wrap:anywhere}.bad{color:var(--bad)}.good{color:var(--good)}"
    ".muted{color:var(--muted)}li{overflow-wrap:anywhere}"
)
"""Rules beside those of the report, which define the colours of both themes."""
_CLASSES: Final = {"slower": "bad", "faster": "good"}
_RESULT_CLASSES: Final = {
    ResultChange.FAILED: "bad",
    ResultChange.DIFFERENT: "bad",
    ResultChange.FIXED: "good",
}
_LINE_CLASSES: Final = {"+": "add", "-": "del", "@": "hunk"}
_SIDES: Final = ("first", "second")


def render_page(diff: RunDiff, regressions: Sequence[Regression] = ()) -> str:
    """Return an HTML page, which loads nothing, contains no script and works offline.

    The runs may come from a stranger: all texts are escaped.
    """
    style = (files("apass.instruments.report") / "assets" / "report.css").read_text("utf-8")
    title = _html(f"{diff.sources[0]} and {diff.sources[1]}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{style}{_STYLE}</style>\n</head>\n<body>\n'
        f'<div class="diff">\n{"".join(_body(diff, regressions))}</div>\n</body>\n</html>\n'
    )


def _body(diff: RunDiff, regressions: Sequence[Regression]) -> Iterator[str]:
    yield f"<h1>{_html(diff.sources[0])} &rarr; {_html(diff.sources[1])}</h1>\n<p>{_html(str(diff))}</p>\n"
    if regressions:
        yield f'<h2 class="bad">Regressions</h2>\n{_list(map(str, regressions))}'
    if diff.settings:
        yield "<h2>Settings</h2>\n"
        rows = [(name, _or_none(first), _or_none(second)) for name, first, second in diff.settings]
        yield _table([("setting", "first run", "second run"), *rows], numbers=0)
    notes = [note for side in diff.notes for note in side]
    if notes:
        yield f"<h2>Notes</h2>\n{_list(notes)}"
    for side, names in zip(_SIDES, (diff.only_first, diff.only_second), strict=True):
        if names:
            yield f"<h2>Modules only in the {side} run</h2>\n{_list(names)}"
    if diff.changes:
        yield "<h2>Modules</h2>\n"
        for change in diff.changes[:_MOST_MODULES]:
            yield from _module(change)
        if len(diff.changes) > _MOST_MODULES:
            yield f"<p>and {len(diff.changes) - _MOST_MODULES:,} more</p>\n"
    if diff.total is not None:
        yield f"<h2>Times</h2>\n{_table(time_rows(diff), numbers=4)}"
        first, second = diff.samples
        note = f"Medians of {first} and {second} samples."
        yield f'<p class="muted">{note if diff.can_judge_times else f"{note} They are {SAMPLES_NOTE}."}</p>\n'


def _module(change: ModuleChange) -> Iterator[str]:
    kind = _RESULT_CLASSES.get(change.result, "muted")
    yield f'<details><summary>{_html(change.name)}: <span class="{kind}">{RESULTS[change.result]}</span></summary>\n'
    if change.has_other_input:
        yield "<p>The inputs differ, so other differences may follow from that.</p>\n"
    for side, is_repeatable, failure in zip(_SIDES, change.are_repeatable, change.failures, strict=True):
        if not is_repeatable:
            yield f'<p class="bad">The repetitions of the {side} run have different results.</p>\n'
        if failure is not None:
            yield f"<p>Failure of the {side} run:</p>\n<pre>{_html(failure)}</pre>\n"
    if change.first_difference is not None:
        yield f"<p>First pass that differs: {_html(str(change.first_difference))}</p>\n"
        diff = change.first_difference.diff
        if diff:
            yield f"<pre>{''.join(map(_diff_line, diff.splitlines()))}</pre>\n"
    numbers = [
        (f"{item.first:,.10g}", f"{item.second:,.10g}", item.name) for item in (*change.sizes, *change.statistics)
    ]
    if numbers:
        yield _table([("first", "second", "number"), *numbers], numbers=2)
    for side, remarks in zip(_SIDES, change.remarks, strict=True):
        if remarks:
            yield f"<p>Remarks only in the {side} run:</p>\n{_list(remarks)}"
    yield "</details>\n"


def _table(rows: Sequence[Sequence[str]], numbers: int) -> str:
    """Return a table whose first row is the heading; its first columns are numbers."""
    head, *rest = rows
    lines = [f"<tr>{''.join(f'<th>{_html(text)}</th>' for text in head)}</tr>"]
    for row in rest:
        classes = ["n" if column < numbers else _CLASSES.get(text, "") for column, text in enumerate(row)]
        cells = (f'<td class="{kind}">{_html(text)}</td>' for kind, text in zip(classes, row, strict=True))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>\n"


def _list(items: Iterable[str]) -> str:
    lines = "".join(f"<li>{_html(item)}</li>\n" for item in items)
    return f"<ul>\n{lines}</ul>\n"


def _diff_line(line: str) -> str:
    return f'<span class="{_LINE_CLASSES.get(line[:1], "")}">{_html(line) or "&nbsp;"}</span>'


def _or_none(value: str | None) -> str:
    return "none" if value is None else value


def _html(text: str) -> str:
    # Control characters could show a text in another order.
    return escape(printable(text, LAYOUT))
