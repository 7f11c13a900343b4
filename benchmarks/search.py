"""Cost of a search beside building and measuring, and what common beginnings save.

python -m benchmarks.search
"""

import os
import sys
from time import perf_counter
from typing import Any

import apass
from apass.concurrency.processes.memory import resident_bytes
from apass.search import Attempt, Budget, Candidate, Search, search
from benchmarks.area import Benchmark, main
from benchmarks.measure import record, session

SPACE = "?{1..12}(bench.Step{n=?1..1000}|bench.Step{n=?1001..2000})"
"""The size of this space is about 10 to the power of 39, so that few proposals are known."""

BEGINNINGS = "?{1..8}(bench.Step{n=1}|bench.Step{n=2}|bench.Step{n=3}|bench.Step{n=4})"
"""A space in which many sequences have common beginnings."""


@apass.register_pass("bench.Step")
def step(n: int) -> apass.Pass[Any]:
    """Return a pass that takes under a microsecond."""
    return apass.module_pass(lambda mod, ctx: {"f": (31 * mod["f"] + n) % 1_000_003}, opt_level=0, name="Step")


def value(candidate: Candidate[Any], _attempt: Attempt) -> int:
    """Return a value at no cost."""
    found: int = candidate.module["f"]
    return found


def steps(space: str, strategy: str, budget: int) -> Search[Any]:
    """Return a search with passes and an objective that cost nothing."""
    return search([{"f": 7}], space, value, strategy=strategy, budget=Budget(budget), verify_outputs=False)


async def trials(rounds: int) -> None:
    """Run 1,000 trials of each strategy that learns nothing from a library."""
    for strategy in ("random", "evolution"):
        measured: list[float] = []
        for _ in range(rounds):
            start = perf_counter()
            result = await steps(SPACE, strategy, 1000)
            measured.append((perf_counter() - start) / result.evaluations)
        record(f"a trial of {strategy}", sorted(measured)[rounds // 2], 2e-3, 1.0, "limit")


async def memory(rounds: int) -> None:
    """Run 100,000 trials; the second half must not need memory."""
    count = 4_000 if session().quick else 100_000
    used: list[int] = []
    async with steps(SPACE, "random", count) as running:
        number = 0
        async for _ in running:
            number += 1
            if number in (count // 2, count):
                used.append(resident_bytes(os.getpid()))
    record("growth with each of 50,000 trials", 2 * max(0, used[1] - used[0]) / count, 2048, 1.0, "limit", unit="bytes")


async def beginnings(rounds: int) -> None:
    """Count the runs of passes that common beginnings save."""
    for strategy in ("random", "greedy", "evolution"):
        statistics = (await steps(BEGINNINGS, strategy, 500)).prefixes
        record(f"passes that run, {strategy}", statistics.runs, statistics.passes, 1.0, "all passes", unit="runs")


BENCHMARKS = (
    Benchmark(trials, rounds=5, quick=True),
    Benchmark(memory, rounds=1),
    Benchmark(beginnings, rounds=1, quick=True),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
