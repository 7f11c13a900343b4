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

_COST: Final = re.compile(r"cost of a job, (\w+): (.+)")
_WORKER: Final = re.compile(r"(\w+) models of ([\d,]+) bytes, (.+): worker")
_LIMIT: Final = re.compile(r"(\w+) models of [\d,]+ bytes, (.+): (\d+) machines?, limit: (.+)")


def costs(rows: Mapping[str, float]) -> Iterator[str]:
    """Iterate over the lines of the table of costs."""
    found: dict[str, dict[str, float]] = {}
    for name, value in rows.items():
        if match := _COST.fullmatch(name):
            found.setdefault(match[2], {})[match[1]] = value
    stores = list(dict.fromkeys(store for columns in found.values() for store in columns))
    yield f"| Cost of a job | {' | '.join(stores)} |"
    yield f"|---|{'---|' * len(stores)}"
    for part, columns in found.items():
        cells = [quantity(columns[store], "s") if store in columns else "" for store in stores]
        yield f"| {part} | {' | '.join(cells)} |"


def capacity(rows: Mapping[str, float]) -> Iterator[str]:
    """Iterate over the lines of the table of models a day."""
    yield "| Models | Passes | Worker | Machines | Models a day | First limit |"
    yield "|---|---|---|---|---|---|"
    workers: dict[tuple[str, str], str] = {}
    for name, value in rows.items():
        if match := _WORKER.fullmatch(name):
            workers[match[1], match[3]] = f"{match[1]}, {match[2]} bytes | {match[3]} | {quantity(value, 's')}"
        elif match := _LIMIT.fullmatch(name):
            # Two digits: the costs are not known better.
            models = float(f"{value * DAY / 1e6:.2g}")
            yield f"| {workers[match[1], match[2]]} | {int(match[3]):,} | {models:g} million | {match[4]} |"


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
