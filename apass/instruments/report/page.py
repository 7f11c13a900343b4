"""`render_page`: renders a record as a self-contained HTML page."""

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import accumulate, chain
from math import isfinite
from typing import Any

from apass.instruments.report.record import Body, PassRun, Record, RecordedError, RecordedRemark, RunStatus
from apass.instruments.report.recorder import module_name
from apass.instruments.report.texts import StoredText
from apass.util.printable import LAYOUT, printable

__all__ = ["page_data", "render_data", "render_page"]

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; \
style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="app"><noscript>{summary}</noscript></div>
<script type="text/plain" id="apass-index">{index}</script>
<script type="text/plain" id="apass-texts">{texts}</script>
<script>{script}</script>
</body>
</html>
"""


_MOST_ROWS = 500
"""Maximum number of rows in the summary that is shown without JavaScript."""


def render_page(record: Record) -> str:
    """Return the HTML page of a record, which loads nothing and works offline."""
    return render_data(page_data(record))


def page_data(record: Record) -> bytes:
    """Return the data of a page as JSON, for `render_data` in any process.

    It is much smaller than the page, which contains a program.
    """
    texts = [b64encode(text.data).decode() for text in record.texts]
    index = json.dumps(_index(record, texts), separators=(",", ":"), allow_nan=False).encode()
    runs = [run for run in record.runs if run.status is not RunStatus.UNCHANGED]
    failures = {run.module: run.failure for run in record.runs if run.failure is not None} | dict(record.failures)
    data = {
        "title": record.title,
        "rows": [
            [run.module, "/".join(step[1] for step in run.steps), run.status.name.lower(), f"{run.end - run.start:.3f}"]
            for run in runs[:_MOST_ROWS]
        ],
        "more": max(0, len(runs) - _MOST_ROWS),
        "failures": [[name, f"{item.kind}: {item.message}"] for name, item in list(failures.items())[:_MOST_ROWS]],
        "index": b64encode(_deflate(index)).decode(),
        "texts": "".join(texts),
    }
    return json.dumps(data, separators=(",", ":")).encode()


def render_data(data: bytes) -> str:
    """Return the HTML page of the data that `page_data` returned.

    The data may come from a stranger: all of it is escaped.

    Raises:
        ValueError: if the data is of another kind.

    """
    try:
        values = json.loads(data)
        summary = "".join(_summary(values))
        title, index, texts = (str(values[name]) for name in ("title", "index", "texts"))
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"this is not the data of a report: {type(error).__name__}: {error}") from error
    assets = files("apass.instruments.report") / "assets"
    return _PAGE.format(
        title=_visible(title),
        summary=summary,
        style=(assets / "report.css").read_text("utf-8"),
        index=escape(index),
        texts=escape(texts),
        script=(assets / "report.js").read_text("utf-8"),
    )


def _summary(values: Mapping[str, Any]) -> Iterable[str]:
    """Iterate over the parts of the summary that is shown without JavaScript."""
    yield f"<h1>{_visible(values['title'])}</h1><p>The texts of modules need JavaScript, and no network.</p>"
    yield "<table><tr><th>module<th>pass<th>result<th>seconds</tr>"
    for cells in values["rows"]:
        yield f"<tr><td>{'<td>'.join(_visible(str(cell)) for cell in cells)}</tr>"
    yield "</table>"
    if values["more"]:
        yield f"<p>and {int(values['more'])} more</p>"
    for name, message in values["failures"]:
        yield f"<h2>{_visible(name)}</h2><pre>{_visible(message)}</pre>"


def _visible(text: str) -> str:
    """Return a text as HTML, with escapes instead of control characters."""
    return escape(printable(text, LAYOUT))


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


class _Names:
    """Table of unique strings."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.all.setdefault(name, len(self.all))


class _Failures:
    """Table of failures. Runs that share a failure share its entry."""

    def __init__(self) -> None:
        self.all: dict[int, RecordedError] = {}
        self._numbers: dict[int, int] = {}

    def number(self, failure: RecordedError | None) -> int:
        if failure is None:
            return -1
        number = self._numbers.setdefault(id(failure), len(self._numbers))
        self.all[number] = failure
        return number


def _index(record: Record, texts: Sequence[str]) -> dict[str, object]:
    """Return all data but the texts.

    The data is in columns, which are smaller and faster to parse than rows.
    """
    names, failures = _Names(), _Failures()
    modules = {name: index for index, name in enumerate(_modules(record))}
    indices = {(run.module, run.steps): index for index, run in enumerate(record.runs)}
    return {
        "title": printable(record.title),
        "version": version("apass"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "modules": list(map(printable, modules)),
        "moduleFailures": [[modules[name], failures.number(error)] for name, error in record.failures.items()],
        "runs": _run_columns(record, modules, indices, names, failures),
        "bodies": _body_columns(record.bodies, record.origin, indices, names),
        "texts": _text_columns(record.texts, texts),
        "remarks": [_remark(remark, modules, indices, names) for remark in record.remarks],
        "provenance": _provenance(record, modules, names),
        "names": list(map(printable, names.all)),
        "failures": [[item.kind, item.message, list(item.notes), item.traceback] for item in failures.all.values()],
        "leftOut": dict(record.left_out),
    }


def _modules(record: Record) -> Iterable[str]:
    remarked = (name for remark in record.remarks if (name := _remarked(remark)) is not None)
    return dict.fromkeys(chain((run.module for run in record.runs), record.failures, remarked))


def _provenance(record: Record, modules: dict[str, int], names: _Names) -> dict[str, dict[str, list[int]]]:
    """Return the histories of touched nodes by module, and by their names and values."""
    found: dict[str, dict[str, list[int]]] = {}
    for module, provenance in record.provenance.items():
        table = found.setdefault(str(modules[module]), {}) if module in modules else {}
        for node in provenance.nodes():
            if node.touches:
                number = names.number(f"{node.name} in {node.function}: {node.summary}")
                for name in dict.fromkeys((node.name, *node.results)):
                    table.setdefault(name, []).append(number)
    return found


_Indices = dict[tuple[str, tuple[tuple[int, str, str | None], ...]], int]


def _run_columns(
    record: Record, modules: dict[str, int], indices: _Indices, names: _Names, failures: _Failures
) -> dict[str, object]:
    runs, origin = record.runs, record.origin
    return {
        "module": [modules[run.module] for run in runs],
        "parent": [_parent(run, indices) for run in runs],
        "name": [names.number(run.steps[-1][1]) for run in runs],
        "function": [_caller_function(run, names) for run in runs],
        "start": [_micro(run.start - origin) for run in runs],
        "wall": [_micro(run.end - run.start) for run in runs],
        "busy": [_micro(run.busy) for run in runs],
        "slices": [_flat_slices(run) for run in runs],
        "before": [run.before for run in runs],
        "after": [run.after for run in runs],
        "status": [int(run.status) for run in runs],
        "failure": [failures.number(run.failure) for run in runs],
        "statistics": {
            str(index): {key: _plain(amount) for key, amount in run.statistics.items()}
            for index, run in enumerate(runs)
            if run.statistics
        },
    }


def _parent(run: PassRun, indices: _Indices) -> int:
    """Return the index of the calling run, or -1.

    The steps of the caller are those of the run without the last one, and without the function that made the call.
    """
    if len(run.steps) == 1:
        return -1
    *above, (number, name, _) = run.steps[:-1]
    return indices.get((run.module, (*above, (number, name, None))), -1)


def _caller_function(run: PassRun, names: _Names) -> int:
    func = run.steps[-2][2] if len(run.steps) > 1 else None
    return -1 if func is None else names.number(func)


def _flat_slices(run: PassRun) -> list[int]:
    """Return the slices as alternating gaps and lengths.

    The list is empty if one slice covers at least 98% of the run.
    """
    bounds = [_micro(at - run.start) for at in run.slices]
    is_whole = len(bounds) == 2 and bounds[1] - bounds[0] >= 0.98 * _micro(run.end - run.start)
    return [] if is_whole else [b - a for a, b in zip([0, *bounds], bounds, strict=False)]


def _body_columns(bodies: Sequence[Body], origin: float, indices: _Indices, names: _Names) -> dict[str, object]:
    items = [body for body in bodies if (body.module, body.steps) in indices]
    return {
        "run": [indices[body.module, body.steps] for body in items],
        "function": [names.number(body.function) for body in items],
        "start": [_micro(body.start - origin) for body in items],
        "wall": [_micro(body.end - body.start) for body in items],
        "busy": [_micro(body.busy) for body in items],
        "worker": [body.worker for body in items],
        "status": [int(body.status) for body in items],
    }


def _text_columns(stored: Sequence[StoredText], texts: Sequence[str]) -> dict[str, object]:
    return {
        "offset": list(accumulate(map(len, texts), initial=0)),
        "base": [text.base for text in stored],
    }


def _remarked(item: RecordedRemark) -> str | None:
    """Return the name of the module that a remark is about."""
    return item.remark.module if item.position is None else module_name(item.position)


def _remark(item: RecordedRemark, modules: dict[str, int], indices: _Indices, names: _Names) -> list[object]:
    remark, span, module = item.remark, item.remark.span, _remarked(item)
    run = -1 if item.position is None else indices.get((module or "", item.position.steps), -1)
    return [
        ("passed", "missed", "analysis").index(remark.kind.value),
        names.number(remark.name),
        remark.message,
        names.number(remark.pass_name or ""),
        names.number(remark.function or ""),
        -1 if module is None else modules[module],
        run,
        "" if span is None else f"{span.source_name}:{span.line}:{span.column}",
        {key: _plain(value) for key, value in remark.args.items()},
    ]


def _plain(value: object) -> object:
    """Return a value that JSON can hold: infinities and NaN become strings."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str) else str(value)


def _micro(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
