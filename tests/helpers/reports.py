"""Reading reports: the data and texts of a page, and the recorded runs."""

import json
import re
import zlib
from base64 import b64decode
from typing import Any

from apass.instruments import ReportInstrument
from apass.instruments.report.record import Record


def index_of(page: str) -> dict[str, Any]:
    """Return all data of a page but the texts."""
    index: dict[str, Any] = json.loads(zlib.decompress(b64decode(_script(page, "apass-index")), -15))
    return index


def texts_of(page: str) -> list[str]:
    """Return the texts of a page, decoded as the page does."""
    blob, columns = _script(page, "apass-texts"), index_of(page)["texts"]
    bases: list[int] = columns["base"]
    decoded: list[bytes] = []
    for number, base in enumerate(bases):
        data = b64decode(blob[columns["offset"][number] : columns["offset"][number + 1]])
        reader = zlib.decompressobj(-15) if base < 0 else zlib.decompressobj(-15, zdict=decoded[base][-(2**15) :])
        decoded.append(reader.decompress(data) + reader.flush())
    return [text.decode() for text in decoded]


def _script(page: str, name: str) -> str:
    match = re.search(rf'<script type="text/plain" id="{name}">([^<]*)</script>', page)
    assert match is not None
    return match[1]


def lines(record: Record) -> list[str]:
    """Return the module, the path and the status of each run."""
    return [f"{item.module} {'/'.join(name for _, name, _ in item.steps)} {item.status.name}" for item in record.runs]


def without_times(report: ReportInstrument) -> object:
    """Return the data of a page without times and workers, with texts for indices."""
    page = report.render()
    index, texts = index_of(page), [*texts_of(page), None]
    runs, bodies = index["runs"], index["bodies"]
    for column in ("before", "after"):
        runs[column] = [texts[number] for number in runs[column]]
    bodies["function"] = [index["names"][number] for number in bodies["function"]]
    runs["failure"] = [number if number < 0 else index["failures"][number] for number in runs["failure"]]

    def named(remark: list[Any]) -> list[Any]:
        kind, name, message, pass_name, function, *rest = remark
        return [kind, *(index["names"][item] for item in (name, pass_name, function)), message, *rest]

    columns = ("module", "parent", "name", "function", "before", "after", "status", "failure", "statistics")
    return (
        index["modules"],
        {column: runs[column] for column in columns},
        [
            (run, name, status)
            for run, name, status in zip(bodies["run"], bodies["function"], bodies["status"], strict=True)
            if status
        ],
        [named(remark) for remark in index["remarks"]],
        index["moduleFailures"],
    )
