"""`render_page`: a record as one HTML page that needs nothing else; for `ReportInstrument`."""

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files
from itertools import accumulate, chain
from math import isfinite

from apass.instruments.report.record import Body, Failure, PassRun, Record, Said
from apass.instruments.report.recorder import module_name
from apass.instruments.report.texts import KeptText

__all__ = ["render_page"]

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
<div id="app"><noscript>This report is a program: it needs JavaScript, and no network.</noscript></div>
<script type="text/plain" id="apass-index">{index}</script>
<script type="text/plain" id="apass-texts">{texts}</script>
<script>{script}</script>
</body>
</html>
"""


def render_page(record: Record) -> str:
    """Return the page. It loads nothing, and may be sent to anybody as it is."""
    assets = files("apass.instruments.report") / "assets"
    texts = [b64encode(one.data).decode() for one in record.texts]
    index = json.dumps(_index(record, texts), separators=(",", ":"), allow_nan=False).encode()
    return _PAGE.format(
        title=escape(record.title),
        style=(assets / "report.css").read_text("utf-8"),
        index=b64encode(_deflated(index)).decode(),
        texts="".join(texts),
        script=(assets / "report.js").read_text("utf-8"),
    )


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


class _Names:
    """Strings by number, each once."""

    def __init__(self) -> None:
        self.all: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.all.setdefault(name, len(self.all))


class _Failures:
    """Failures by number; one that several runs share is one."""

    def __init__(self) -> None:
        self.all: dict[int, Failure] = {}
        self._numbers: dict[int, int] = {}

    def number(self, failure: Failure | None) -> int:
        if failure is None:
            return -1
        number = self._numbers.setdefault(id(failure), len(self._numbers))
        self.all[number] = failure
        return number


def _index(record: Record, texts: Sequence[str]) -> dict[str, object]:
    """Return all but the texts, in columns: they are smaller than rows, and faster to read."""
    names, failures = _Names(), _Failures()
    modules = {name: place for place, name in enumerate(_modules(record))}
    places = {(one.module, one.steps): place for place, one in enumerate(record.runs)}
    return {
        "title": record.title,
        "version": version("apass"),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "modules": list(modules),
        "moduleFailures": [[modules[name], failures.number(one)] for name, one in record.failures.items()],
        "runs": _run_columns(record, modules, places, names, failures),
        "bodies": _body_columns(record.bodies, record.origin, places, names),
        "texts": _text_columns(record.texts, texts),
        "remarks": [_remark(one, modules, places, names) for one in record.remarks],
        "names": list(names.all),
        "failures": [[one.kind, one.message, list(one.notes), one.traceback] for one in failures.all.values()],
        "leftOut": dict(record.left_out),
    }


def _modules(record: Record) -> Iterable[str]:
    remarked = (name for one in record.remarks if (name := _remarked(one)) is not None)
    return dict.fromkeys(chain((one.module for one in record.runs), record.failures, remarked))


_Places = dict[tuple[str, tuple[tuple[int, str, str | None], ...]], int]


def _run_columns(
    record: Record, modules: dict[str, int], places: _Places, names: _Names, failures: _Failures
) -> dict[str, object]:
    runs, origin = record.runs, record.origin
    return {
        "module": [modules[one.module] for one in runs],
        "parent": [_parent(one, places) for one in runs],
        "name": [names.number(one.steps[-1][1]) for one in runs],
        "function": [_caller_function(one, names) for one in runs],
        "start": [_micro(one.start - origin) for one in runs],
        "wall": [_micro(one.end - one.start) for one in runs],
        "busy": [_micro(one.busy) for one in runs],
        "slices": [_flat_slices(one) for one in runs],
        "before": [one.before for one in runs],
        "after": [one.after for one in runs],
        "status": [int(one.status) for one in runs],
        "failure": [failures.number(one.failure) for one in runs],
        "statistics": {
            str(place): {key: _plain(amount) for key, amount in one.statistics.items()}
            for place, one in enumerate(runs)
            if one.statistics
        },
    }


def _parent(run: PassRun, places: _Places) -> int:
    """Return the run that called it: its steps without the last, and without the function whose body called it."""
    if len(run.steps) == 1:
        return -1
    *above, (number, name, _) = run.steps[:-1]
    return places.get((run.module, (*above, (number, name, None))), -1)


def _caller_function(run: PassRun, names: _Names) -> int:
    func = run.steps[-2][2] if len(run.steps) > 1 else None
    return -1 if func is None else names.number(func)


def _flat_slices(run: PassRun) -> list[int]:
    """Return the slices as gaps and lengths in turn; nothing where the one slice is the whole run."""
    bounds = [_micro(at - run.start) for at in run.slices]
    is_whole = len(bounds) == 2 and bounds[1] - bounds[0] >= 0.98 * _micro(run.end - run.start)
    return [] if is_whole else [b - a for a, b in zip([0, *bounds], bounds, strict=False)]


def _body_columns(bodies: Sequence[Body], origin: float, places: _Places, names: _Names) -> dict[str, object]:
    known = [one for one in bodies if (one.module, one.steps) in places]
    return {
        "run": [places[one.module, one.steps] for one in known],
        "function": [names.number(one.function) for one in known],
        "start": [_micro(one.start - origin) for one in known],
        "wall": [_micro(one.end - one.start) for one in known],
        "busy": [_micro(one.busy) for one in known],
        "worker": [one.worker for one in known],
        "status": [int(one.status) for one in known],
    }


def _text_columns(kept: Sequence[KeptText], texts: Sequence[str]) -> dict[str, object]:
    return {
        "offset": list(accumulate(map(len, texts), initial=0)),
        "base": [one.base for one in kept],
    }


def _remarked(said: Said) -> str | None:
    """Return the name of the module that a remark is about."""
    return said.remark.module if said.position is None else module_name(said.position)


def _remark(said: Said, modules: dict[str, int], places: _Places, names: _Names) -> list[object]:
    remark, span, module = said.remark, said.remark.span, _remarked(said)
    run = -1 if said.position is None else places.get((module or "", said.position.steps), -1)
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
    """Return a value as JSON can have it."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    return value if isinstance(value, int | float | str) else str(value)


def _micro(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
