"""The tables of `service_scaling.md`, from the rows of `service_model.py`.

    python -m benchmarks.service_model --rows rows.json
    python -m benchmarks.service_plan rows.json

The rows of a run of all benchmarks, with `--json`, do as well.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from benchmarks.measure import quantity

__all__ = ["main", "with_tables"]

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "service_scaling.md"

DAY: Final = 86_400

COSTS: Final = {
    "accept": "Acceptance",
    "schedule": "Scheduling and result",
    "commit": "Wait for a transaction",
    "database": "Database",
    "task": "Scheduler of Dask, a task",
    "work": "Worker",
}
"""The columns of the table of costs."""

_COST: Final = re.compile(r"cost, (.+, [^,]+): (\w+)")
_CAPACITY: Final = re.compile(r"(?!cost)(.+), (one machine|cluster), (\d+) workers: (\w+)")


def costs(rows: Mapping[str, float]) -> Iterator[str]:
    """Iterate over the lines of the table of costs."""
    found: dict[str, dict[str, float]] = {}
    for name, value in rows.items():
        if match := _COST.fullmatch(name):
            found.setdefault(match[1], {})[match[2]] = value
    yield f"| Models | {' | '.join(COSTS.values())} |"
    yield f"|---|{'---|' * len(COSTS)}"
    for label, parts in found.items():
        yield f"| {label} | {' | '.join(quantity(parts[part], 's') if parts.get(part) else '' for part in COSTS)} |"


def capacity(rows: Mapping[str, float]) -> Iterator[str]:
    """Iterate over the lines of the table of models a day."""
    found: dict[str, dict[str, str]] = {}
    for name, value in rows.items():
        if match := _CAPACITY.fullmatch(name):
            # Two digits: the costs are not known better.
            cell = f"{float(f'{value * DAY / 1e6:.2g}'):g} million, {match[4]}"
            found.setdefault(match[1], {})[f"{match[2]}, {match[3]} workers"] = cell
    columns = list(dict.fromkeys(column for cells in found.values() for column in cells))
    yield f"| Models | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for label, cells in found.items():
        yield f"| {label} | {' | '.join(cells.get(column, '') for column in columns)} |"


def with_tables(page: str, document: Mapping[str, Any]) -> str:
    """Return the page with the tables of a document of rows."""
    rows = {row["name"]: float(row["ours"]) for row in document["rows"] if row["area"] == "service_model"}
    for name, lines in (("costs", costs(rows)), ("capacity", capacity(rows))):
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        page = "".join((before, start, "\n", "\n".join(lines), "\n\n", end, after))
    return page


def main() -> None:
    """Write the tables of the page."""
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), document), encoding="utf-8")


if __name__ == "__main__":
    main()
