"""`read_page`: reads the record back from an HTML page of a report."""

import json
import re
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from html import unescape
from math import inf
from typing import Any, Final, NoReturn

from apass.core.diagnostics import Span
from apass.core.position import Position
from apass.core.remarks import Remark, RemarkKind
from apass.instruments.report.record import PassRun, Record, RecordedError, RecordedRemark, RunStatus
from apass.instruments.report.texts import StoredText
from apass.util.typed_values import convert

__all__ = ["is_page", "read_page"]

_INDEX_BYTES: Final = 2**28
"""Maximum size of the data of a page without its texts."""
_KINDS: Final = (RemarkKind.PASSED, RemarkKind.MISSED, RemarkKind.ANALYSIS)
_Steps = tuple[tuple[int, str, str | None], ...]


def is_page(text: str) -> bool:
    """Return whether a text is the page of a report."""
    return 'id="apass-index"' in text


def read_page(page: str) -> Record:
    """Return the record of a page, without function bodies and slices of time.

    Times are relative to the start of the record, in whole microseconds. The page may come from a stranger: it is
    checked, and none of it is executed.

    Raises:
        ValueError: if the page is damaged, or not that of a report.

    """
    try:
        index = json.loads(_inflated(_script(page, "apass-index")), parse_constant=_reject)
        return _read(_Fields(index, "the report"), _script(page, "apass-texts"))
    except (TypeError, IndexError, RecursionError, OverflowError) as error:
        raise ValueError(f"its data are damaged: {error}") from error


class _Fields:
    """The members of a JSON object, converted when they are read."""

    def __init__(self, values: Any, name: str) -> None:
        self._values: Mapping[str, Any] = convert(values, dict[str, Any])
        self._name = name

    def get(self, key: str, kind: Any) -> Any:
        """Return a member as a value of a type.

        Raises:
            ValueError: if it is missing, or of another type.

        """
        if key not in self._values:
            raise ValueError(f"{self._name} has no {key!r}")
        try:
            return convert(self._values[key], kind)
        except TypeError as error:
            raise ValueError(f"{key!r} of {self._name}: {str(error)[:200]}") from None


def _read(index: _Fields, texts: str) -> Record:
    modules: list[str] = index.get("modules", list[str])
    names: list[str] = index.get("names", list[str])
    failures = [
        RecordedError(kind=kind, message=message, notes=notes, traceback=trace)
        for kind, message, notes, trace in index.get("failures", list[tuple[str, str, list[str], str]])
    ]
    stored = _stored_texts(_Fields(index.get("texts", Any), "the table of texts"), texts)
    runs = _runs(_Fields(index.get("runs", Any), "the table of runs"), modules, names, failures, len(stored))
    return Record(
        title=index.get("title", str),
        origin=0.0,
        runs=runs,
        bodies=(),
        texts=stored,
        failures={
            _at(modules, module): _at(failures, failure)
            for module, failure in index.get("moduleFailures", list[tuple[int, int]])
        },
        remarks=[_remark(values, modules, names, runs) for values in index.get("remarks", list[Any])],
        left_out=index.get("leftOut", dict[str, int]),
    )


def _runs(
    columns: _Fields, modules: Sequence[str], names: Sequence[str], failures: Sequence[RecordedError], texts: int
) -> list[PassRun]:
    integers = ("module", "parent", "name", "function", "before", "after", "status", "failure")
    rows = [columns.get(column, list[int]) for column in integers]
    times = [columns.get(column, list[float]) for column in ("start", "wall", "busy")]
    statistics: dict[str, dict[str, float]] = {
        number: {name: float(amount) for name, amount in values.items()}
        for number, values in columns.get("statistics", dict[str, dict[str, float | str]]).items()
    }
    runs: list[PassRun] = []
    # A page has no numbers of steps: runs are sorted by position, so that each is the next one of its caller.
    counts: Counter[tuple[str, int, str | None]] = Counter()
    for number, row in enumerate(zip(*rows, *times, strict=True)):
        module, parent, name, function, before, after, status, failure, start, wall, busy = row
        if not -1 <= parent < number:
            raise ValueError(f"run {number} has the caller {parent}, which does not precede it")
        if not all(0 <= time < inf for time in (start, wall, busy)):
            raise ValueError(f"run {number} has a time that is not a positive number")
        if not all(-1 <= text < texts for text in (before, after)):
            raise ValueError(f"run {number} has a text that does not exist")
        func = None if function < 0 else _at(names, function)
        key = (_at(modules, module), parent, func)
        above: _Steps = ()
        if parent >= 0:
            *outer, (index, caller, _) = runs[int(parent)].steps
            above = (*outer, (index, caller, func))
        runs.append(
            PassRun(
                module=_at(modules, module),
                steps=(*above, (counts[key], _at(names, name), None)),
                start=start / 1e6,
                end=(start + wall) / 1e6,
                busy=busy / 1e6,
                slices=(),
                before=before,
                after=after,
                status=RunStatus(status),
                failure=None if failure < 0 else _at(failures, failure),
                statistics=statistics.get(str(number), {}),
            )
        )
        counts[key] += 1
    return runs


def _stored_texts(columns: _Fields, blob: str) -> list[StoredText]:
    offsets: list[int] = columns.get("offset", list[int])
    bases: list[int] = columns.get("base", list[int])
    if len(offsets) != len(bases) + 1 or offsets != sorted(offsets) or not 0 <= offsets[0] <= offsets[-1] <= len(blob):
        raise ValueError("the offsets of the texts do not fit their data")
    texts: list[StoredText] = []
    for number, base in enumerate(bases):
        if not -1 <= base < number:
            raise ValueError(f"text {number} is based on text {base}, which does not precede it")
        data = _decoded(blob[offsets[number] : offsets[number + 1]])
        texts.append(StoredText(data, base, 0 if base < 0 else texts[base].links + 1))
    return texts


def _remark(values: object, modules: Sequence[str], names: Sequence[str], runs: Sequence[PassRun]) -> RecordedRemark:
    layout = tuple[int, int, str, int, int, int, int, str, dict[str, Any]]
    kind, name, message, pass_name, function, module, run, place, args = convert(values, layout)
    remark = Remark(
        kind=_at(_KINDS, kind),
        name=_at(names, name),
        message=message,
        span=_span(place),
        args=args,
        pass_name=_at(names, pass_name) or None,
        function=_at(names, function) or None,
        module=None if module < 0 else _at(modules, module),
    )
    caller = None if run < 0 else _at(runs, run)
    return RecordedRemark(remark, None if caller is None else Position(caller.module, caller.steps))


def _span(place: str) -> Span | None:
    """Return the first character of a place, such as `main.relay:3:5`."""
    source, _, rest = place.rpartition(":")
    source, _, line = source.rpartition(":")
    if not (line.isdecimal() and rest.isdecimal()):
        return None
    return Span(source, int(line), int(line), int(rest), int(rest))


def _at(items: Sequence[Any], index: int) -> Any:
    # Python takes a negative index for one from the end.
    if not 0 <= index < len(items):
        raise ValueError(f"its data name item {index} of {len(items)}")
    return items[index]


def _script(page: str, name: str) -> str:
    match = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    if match is None:
        raise ValueError(f"it has no complete element {name!r}")
    return unescape(match[1])


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"its data are damaged: {error}") from error


def _inflated(text: str) -> bytes:
    reader = zlib.decompressobj(-15)
    try:
        data = reader.decompress(_decoded(text), _INDEX_BYTES)
    except zlib.error as error:
        raise ValueError(f"its data are damaged: {error}") from error
    if not reader.eof:
        reason = f"more than {_INDEX_BYTES:,} bytes" if len(data) == _INDEX_BYTES else "no end"
        raise ValueError(f"its data have {reason}")
    return data


def _reject(constant: str) -> NoReturn:
    raise ValueError(f"its data contain the number {constant}")
