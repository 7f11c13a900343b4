"""Learn a short list of pipelines from a table of results.

    python -m benchmarks.phase_order.learn [--count 45] [--write FILE]

prints how far the list is below `default<Oz>`, on the programs that it was learned on and, for each program, with a
list that was learned on the others. The table, `table.json.gz`, is JSON:

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

from apass.search import learn_pipelines

__all__ = ["TABLE", "Results", "level_of", "main", "name_of"]

TABLE: Final = Path(__file__).parent / "table.json.gz"
"""The results, which are learned from."""

HEAD: Final = """\
# Pipelines after which programs in C are small, in the order in which a search should try them.
# Made by `python -m benchmarks.phase_order.learn`: of {rows} pipelines that searches found for {programs} modules,
# each line lowers the geometric mean of the best instruction counts most.
"""


@dataclass(frozen=True, slots=True)
class Results:
    """Results of pipelines on programs."""

    programs: tuple[str, ...]
    """The names of the programs."""
    table: dict[str, dict[str, float]]
    """For each pipeline, its size by program, relative to `default<Oz>`."""
    found_on: dict[str, frozenset[str]]
    """For each pipeline, the programs on which a search found it."""

    @classmethod
    def load(cls, path: Path = TABLE) -> "Results":
        """Return the results in a file."""
        document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        programs, sizes = tuple(document["programs"]), document["baseline"]
        return cls(
            programs,
            {
                row["pipeline"]: {
                    name: count / size
                    for name, count, size in zip(programs, row["instructions"], sizes, strict=True)
                    if count
                }
                for row in document["rows"]
            },
            {row["pipeline"]: frozenset(row["found_on"]) for row in document["rows"]},
        )

    def without(self, program: str) -> dict[str, dict[str, float]]:
        """Return what is known if a program, at any level, is not."""
        return {
            pipeline: {key: value for key, value in row.items() if name_of(key) != program}
            for pipeline, row in self.table.items()
            if program not in self.found_on[pipeline]
        }

    def best(self, program: str, pipelines: Sequence[str]) -> float:
        """Return the least size of a program after one of the pipelines."""
        return min([1.0, *(self.table[pipeline].get(program, 1.0) for pipeline in pipelines)])

    def mean(self, pipelines: Sequence[str]) -> float:
        """Return the geometric mean of the least sizes."""
        return _mean([self.best(name, pipelines) for name in self.programs])


def name_of(key: str) -> str:
    """Return the name of a program, without its level."""
    return key.removesuffix("-Oz")


def level_of(key: str) -> str:
    """Return the level of a program."""
    return "Oz" if key.endswith("-Oz") else "O0"


def _mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, print the results, and write the list if asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.phase_order.learn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    parser.add_argument("--count", type=int, default=45, help="pipelines in the list (default: 45)")
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    results = Results.load(options.table)
    chosen = learn_pipelines(results.table, options.count)
    for number in range(1, len(chosen) + 1):
        print(f"{number:3} {100 * (results.mean(chosen[:number]) - 1):+6.2f}%  {chosen[number - 1]}")
    others: list[float] = []
    for name in results.programs:
        others.append(results.best(name, learn_pipelines(results.without(name_of(name)), options.count)))
        print(f"{name:15} {100 * (others[-1] - 1):+6.2f}%")
    for level in dict.fromkeys(map(level_of, results.programs)):
        ratios = [ratio for name, ratio in zip(results.programs, others, strict=True) if level_of(name) == level]
        print(f"{level}, learned on the other programs: {100 * (_mean(ratios) - 1):+.2f}% in {options.count} builds")
    if options.write is not None:
        head = HEAD.format(programs=len(results.programs), rows=len(results.table))
        options.write.write_text(head + "\n".join(chosen) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
