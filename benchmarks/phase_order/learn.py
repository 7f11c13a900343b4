"""Learn a short list of pipelines from a table of results.

    python -m benchmarks.phase_order.learn TABLE [--count 45] [--write FILE]

prints how far the list is below `default<Oz>`, on the programs that it was learned on and, for each program, with a
list that was learned on the others. The table is JSON:

    {"programs": [name, ...], "baseline": [instructions, ...],
     "rows": [{"pipeline": text, "found_on": [name, ...], "instructions": [number or null, ...]}, ...]}

`found_on` names the programs on which a search found the pipeline; it counts as unknown when one of them is left out.
"""

import argparse
import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import apass

__all__ = ["Row", "Table", "cover", "left_out", "main"]

HEAD: Final = """\
# Pipelines after which programs in C are small, in the order in which a search should try them.
# Made by `python -m benchmarks.phase_order.learn`: local searches on each of {programs} programs found {rows}
# pipelines, of which each line lowers the geometric mean of the best instruction counts most.
"""


@dataclass(frozen=True)
class Row:
    """A pipeline, and its results."""

    pipeline: str
    """In the language of `opt`."""
    found_on: frozenset[str]
    """Programs on which a search found it."""
    logs: tuple[float, ...]
    """Logarithm of the size against the baseline, for each program; infinite if `opt` fails."""


@dataclass(frozen=True)
class Table:
    """Results of pipelines on programs."""

    programs: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def load(cls, path: Path) -> "Table":
        """Return the table of a file, which may be compressed by gzip."""
        data = path.read_bytes()
        document: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        sizes: list[int] = document["baseline"]
        rows = [
            Row(
                row["pipeline"],
                frozenset(row["found_on"]),
                tuple(
                    math.log(n / size) if n else math.inf for n, size in zip(row["instructions"], sizes, strict=True)
                ),
            )
            for row in document["rows"]
        ]
        return cls(tuple(document["programs"]), tuple(rows))


def cover(rows: Sequence[Row], columns: Sequence[int], count: int) -> list[Row]:
    """Return rows, each of which lowers the mean of the best results most.

    When no row lowers it, the next ones cover the programs once more: they are good on programs that are not known.
    """
    rest = list(rows)
    chosen: list[Row] = []
    best = [math.inf] * len(columns)
    while rest and len(chosen) < count:
        sums = [sum(min(row.logs[column], low) for column, low in zip(columns, best, strict=True)) for row in rest]
        lowest = min(range(len(rest)), key=sums.__getitem__)
        if sums[lowest] < sum(best):
            chosen.append(rest.pop(lowest))
            best = [min(chosen[-1].logs[column], low) for column, low in zip(columns, best, strict=True)]
        elif best == [math.inf] * len(columns):
            break
        else:
            best = [math.inf] * len(columns)
    return chosen


def left_out(table: Table, column: int, count: int) -> float:
    """Return the best result on a program of a list that the others taught.

    It is a logarithm, as in `Row`.
    """
    name = table.programs[column]
    rows = [row for row in table.rows if name not in row.found_on]
    others = [other for other in range(len(table.programs)) if other != column]
    return min(row.logs[column] for row in cover(rows, others, count))


def below(logs: Sequence[float]) -> float:
    """Return by how many percent the geometric mean is below the baseline."""
    return 100 * (1 - math.exp(sum(logs) / len(logs)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, print the results, and write the list if asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.phase_order.learn", description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--count", type=int, default=45)
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    table = Table.load(options.table)
    columns = range(len(table.programs))
    chosen = cover(table.rows, columns, options.count)
    for number, row in enumerate(chosen, 1):
        best = [min(each.logs[column] for each in chosen[:number]) for column in columns]
        print(f"{number:3} {below(best):6.2f}%  {row.pipeline}")
    others = [left_out(table, column, options.count) for column in columns]
    for name, result in zip(table.programs, others, strict=True):
        print(f"{name:12} {below([result]):6.2f}%")
    print(f"left out, geometric mean: {below(others):.2f}% below default<Oz> in {options.count} builds")
    if options.write:
        lines = [str(apass.parse_pipeline(f"llvm:{row.pipeline}")) for row in chosen]
        head = HEAD.format(programs=len(columns), rows=len(table.rows))
        options.write.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
