"""`python -m benchmarks.history`: plot and table of the revisions."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.history import HISTORY, PLOT, README, load, plot, table, texts
from tests.helpers.repository import ROOT


@pytest.mark.parametrize("path", [PLOT, README], ids=["plot", "readme"])
def test_generated_file_is_current(path: Path) -> None:
    assert path.read_text() == dict(texts())[path], "run `python -m benchmarks.history`"


def test_history_is_sorted_by_revision() -> None:
    dates = [str(measured.machine["revision_date"]) for measured in load()]
    assert dates == sorted(dates)
    assert len(dates) == len(list(HISTORY.glob("*.json"))) > 1


def write(folder: Path, name: str, date: str, ratio: float) -> None:
    """Write a file of the history with two rows."""
    machine: dict[str, Any] = {
        "apass": "0.1.0",
        "date": date,
        "revision_date": date,
        "python": "CPython 3.11.7",
        "platform": "Linux",
    }
    machine |= {"cpus": 2, "calibration": {"python": 0.01, "memory": 0.02}}
    row = {"area": "runner", "ours": ratio, "other": 1.0, "ratio": ratio, "spread": 0.1, "unit": "s", "backend": "trio"}
    rows = [{**row, "name": "a < b", "peer": "loop", "bound": 1.5}, {**row, "name": "c", "peer": "loop", "bound": None}]
    document: dict[str, Any] = {**machine, "rows": rows, "left_out": {}, "errors": []}
    (folder / f"{name}.json").write_text(json.dumps(document))


def test_plot_has_a_panel_for_each_bound(tmp_path: Path) -> None:
    write(tmp_path, "0.2.0", "2027-01-01", 2.0)
    write(tmp_path, "0.1.0", "2026-01-01", 1.0)
    root = ElementTree.fromstring(plot(load(tmp_path)))
    labels = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert ("a < b" in labels, "c" in labels, labels.index("0.1.0") < labels.index("0.2.0")) == (True, False, True)
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    first, second = (point.split(",") for point in line.attrib["points"].split())
    assert float(first[0]) < float(second[0])
    assert float(first[1]) > float(second[1])  # a larger ratio is higher


def test_table_marks_rows_over_their_bound(tmp_path: Path) -> None:
    write(tmp_path, "0.2.0", "2027-01-01", 2.0)
    assert table(load(tmp_path)[0]).splitlines()[-2:] == [
        "| `runner` | a < b |  | 2.00 (over) | 1.50 | loop |",
        "| `runner` | c |  | 2.00 |  | loop |",
    ]


def test_page_shows_the_plot() -> None:
    assert "../assets/images/benchmarks.svg" in (ROOT / "docs/explanation/performance.md").read_text()
