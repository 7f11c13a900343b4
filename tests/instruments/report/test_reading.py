"""`read_page`: a page is read back as the record, and a damaged one is an error."""

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from math import nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.instruments.report.reading import is_page, read_page
from apass.instruments.report.record import PassRun, Record
from apass.instruments.report.texts import text_at
from tests.helpers.report_samples import in_a_thread, recorded
from tests.helpers.reports import index_of


@cache
def sample() -> tuple[Record, str]:
    """Return the record of seven modules, one of which fails, and its page."""
    found: list[Record] = []

    async def make() -> str:
        report = await recorded(7)
        report.fail("unread", OSError("no such file"))
        found.append(report.record())
        return report.render()

    page = in_a_thread(make)
    return found[0], page


def texts_of(record: Record, run: PassRun) -> tuple[str | None, ...]:
    return tuple(text_at(record.texts, index) if index >= 0 else None for index in (run.before, run.after))


def test_page_has_the_record() -> None:
    record, page = sample()
    read = read_page(page)
    assert (read.title, read.failures, read.left_out) == (record.title, record.failures, record.left_out)
    for run, other in zip(record.runs, read.runs, strict=True):
        shared: dict[str, Any] = {"start": 0.0, "end": 0.0, "busy": 0.0, "slices": (), "before": 0, "after": 0}
        assert replace(other, failure=None, **shared) == replace(run, failure=None, **shared)
        assert texts_of(read, other) == texts_of(record, run)
        assert other.end - other.start == pytest.approx(run.end - run.start, abs=2e-6)
        assert (other.failure is None) == (run.failure is None)
        if run.failure is not None and other.failure is not None:
            assert (other.failure.kind, other.failure.message) == (run.failure.kind, run.failure.message)
    assert [(item.remark.message, item.position) for item in read.remarks] == [
        (item.remark.message, item.position) for item in record.remarks
    ]
    assert len(read.remarks) > 10


def test_other_files_are_no_pages() -> None:
    assert [is_page(text) for text in (sample()[1], "", "<html></html>", "\x00")] == [True, False, False, False]


@given(st.data())
def test_damaged_page_is_a_value_error(data: st.DataObject) -> None:
    page = sample()[1]
    start = page.index('id="apass-index"')
    end = page.index("<script>", start)
    position = data.draw(st.integers(start, end))
    length = data.draw(st.integers(0, 50))
    changed = page[:position] + data.draw(st.text(max_size=8)) + page[position + length :]
    # Any other error is a failure of this test.
    with suppress(ValueError):
        read_page(changed)


def with_member(path: Sequence[str | int], value: object) -> str:
    """Return the page with another member in its data."""
    page = sample()[1]
    index: Any = index_of(page)
    *outer, last = path
    inner = index
    for key in outer:
        inner = inner[key]
    inner[last] = value
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = b64encode(packer.compress(json.dumps(index).encode()) + packer.flush()).decode()
    before, _, rest = page.partition('id="apass-index">')
    return f'{before}id="apass-index">{data}{rest[rest.index("<") :]}'


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("runs", "parent", 3), 3, "run 3 has the caller 3, which does not precede it"),
        (("runs", "wall", 3), -1, "run 3 has a time that is not a positive number"),
        (("runs", "wall", 3), nan, "its data contain the number NaN"),
        (("runs", "wall", 3), 10**400, "'wall' of the table of runs: expected float"),
        (("runs", "after", 3), 10**9, "run 3 has a text that does not exist"),
        (("runs", "module", 3), -1, "its data name item -1 of"),
        (("runs", "name", 3), "x", "'name' of the table of runs: expected int"),
        (("runs", "status", 3), 9, "9 is not a valid RunStatus"),
        (("runs", "busy"), [], "zip() argument"),
        (("runs",), {}, "the table of runs has no 'module'"),
        (("runs",), [], "its data are damaged: expected"),
        (("texts", "base", 0), 0, "text 0 is based on text 0"),
        (("texts", "offset", -1), 10**9, "the offsets of the texts do not fit"),
        (("remarks",), [3], "its data are damaged: expected"),
    ],
)
def test_wrong_data_are_named(path: Sequence[str | int], value: object, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_page(with_member(path, value))


def test_later_versions_may_add_members() -> None:
    assert read_page(with_member(["more"], 1)).title == "a report"


@pytest.mark.slow
def test_huge_data_are_refused_early() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = b" " * 2**20
    data = b"".join(packer.compress(zeros) for _ in range(300)) + packer.flush()
    page = f'<script type="text/plain" id="apass-index">{b64encode(data).decode()}</script>'
    with pytest.raises(ValueError, match="more than 268,435,456 bytes"):
        read_page(page)
