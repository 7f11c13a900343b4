"""Search the programs, and collect the results from which `learn.py` learns.

    python -m benchmarks.phase_order.collect [--levels O0,Oz] [--evaluations 150] [--take 3]

Each program is searched at the levels, by the strategy `coreset` with the present list. The best pipelines of each
search, and those of the present table, are measured on all programs at both levels. Studies and measurements are kept,
and what the table has is not measured again, so that the next call continues.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import anyio

import apass
from apass.adapters.llvm import Module, load_module
from apass.search import Attempt, Candidate, Trial, search
from benchmarks.phase_order.build import UNOPTIMIZED, Level, Program
from benchmarks.phase_order.learn import TABLE
from benchmarks.phase_order.programs import PROGRAMS
from benchmarks.phase_order.sources import folder

__all__ = ["main", "programs_at"]

BASELINE: Final = "llvm.default{level=Oz}"
SECONDS: Final = 30.0
"""Maximum time of a build."""
TASKS: Final = 2
"""Builds at the same time."""


def programs_at(*levels: Level) -> list[Program]:
    """Return the programs at some levels."""
    return [replace(program, level=level) for level in levels for program in PROGRAMS]


def count(candidate: Candidate[Module], _attempt: Attempt) -> int:
    """Return the number of instructions of a candidate."""
    return candidate.module.instructions


async def best_of(program: Program, evaluations: int, take: int) -> list[Trial]:
    """Search a program, and return its best trials."""
    studies = folder() / "collected"
    studies.mkdir(exist_ok=True)
    running = search(
        {program.key: load_module(program.module())},
        "llvm.size",
        count,
        strategy="coreset",
        budget=evaluations,
        baseline=BASELINE,
        journal=studies / f"{program.key}.db",
        timeout=SECONDS,
        verify_outputs=False,  # the board runs the programs
    )
    async with running:
        async for _ in running:
            pass
        result = await running.finish()
        trials = [trial for trial in running.trials()[program.key] if trial.is_valid and trial.number]
    found = result.modules[program.key]
    print(f"{program.key:15} {found.baseline.values['count']:6.0f} {100 * ((found.ratio or 1) - 1):+6.2f}%", flush=True)
    return sorted(trials, key=lambda trial: (trial.values["count"], len(trial.pipeline)))[:take]


class Sizes:
    """The instructions of programs after pipelines, which are kept."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self._path = folder() / "sizes.jsonl"
        self._programs = programs
        self._known: dict[tuple[str, str], int | None] = {}
        document = present()
        measured: list[Any] = [{"pipeline": BASELINE, "instructions": document["baseline"]}, *document["rows"]]
        for row in measured:
            for key, size in zip(document["programs"], row["instructions"], strict=True):
                self._known[key, row["pipeline"]] = size
        if self._path.exists():
            rows: list[Any] = [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]
            self._known |= {(key, pipeline): size for key, pipeline, size in rows}

    def of(self, pipeline: str) -> list[int | None]:
        """Return the instructions of each program; None where the pipeline fails."""
        return [self._known[program.key, pipeline] for program in self._programs]

    async def measure(self, pipelines: Sequence[str]) -> None:
        """Build what is not known yet."""
        jobs = self._jobs(pipelines)
        async with anyio.create_task_group() as group:
            for _ in range(TASKS):
                group.start_soon(self._work, jobs)

    def _jobs(self, pipelines: Sequence[str]) -> Iterator[tuple[Program, Module, str]]:
        for program in self._programs:
            missing = [pipeline for pipeline in pipelines if (program.key, pipeline) not in self._known]
            if missing:
                print(f"{program.key:15} {len(missing)} builds", flush=True)
                mod = load_module(program.module())
                yield from ((program, mod, pipeline) for pipeline in missing)

    async def _work(self, jobs: Iterator[tuple[Program, Module, str]]) -> None:
        for program, mod, pipeline in jobs:
            size = None
            try:
                with anyio.fail_after(SECONDS):
                    size = (await apass.parse_pipeline(pipeline)(mod)).instructions
            except (apass.ApassError, TimeoutError) as error:
                print(f"{program.key:15} fails: {str(error)[:100]}", flush=True)
            self._known[program.key, pipeline] = size
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([program.key, pipeline, size]) + "\n")


def present() -> dict[str, Any]:
    """Return the present table."""
    document: dict[str, Any] = json.loads(gzip.decompress(TABLE.read_bytes()))
    return document


async def collect(levels: Sequence[Level], evaluations: int, take: int) -> None:
    """Search, measure, and write the table."""
    programs = programs_at(*UNOPTIMIZED)
    found = {row["pipeline"]: set(row["found_on"]) for row in present()["rows"]}
    for program in programs_at(*levels):
        for trial in await best_of(program, evaluations, take):
            found.setdefault(trial.pipeline, set()).add(program.name)
    sizes = Sizes(programs)
    await sizes.measure([BASELINE, *found])
    document = {
        "programs": [program.key for program in programs],
        "baseline": sizes.of(BASELINE),
        "rows": [
            {"pipeline": pipeline, "found_on": sorted(names), "instructions": sizes.of(pipeline)}
            for pipeline, names in found.items()
        ],
    }
    TABLE.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))


def main() -> None:
    """Collect results, and write them to the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.phase_order.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--levels", default="O0,Oz", help="the levels of the programs that are searched")
    parser.add_argument("--evaluations", type=int, default=150, help="candidates of each search (default: 150)")
    parser.add_argument("--take", type=int, default=3, help="pipelines that are taken from each search (default: 3)")
    options = parser.parse_args()
    levels: list[Level] = [level for level in UNOPTIMIZED if level in options.levels.split(",")]
    anyio.run(collect, levels, options.evaluations, options.take)


if __name__ == "__main__":
    main()
