"""Short benchmarks: two record rows, one raises, one lacks a library."""

import sys

import anyio

from benchmarks.area import Benchmark, main
from benchmarks.measure import compare, record


async def sleeps(rounds: int) -> None:
    """Compare a sleep with a longer one."""
    await compare("sleep", lambda: anyio.sleep(0.001), lambda: anyio.sleep(0.03), None, "a longer sleep", rounds)


def sizes(rounds: int) -> None:
    """Record a size above its limit, and one without."""
    record("size above its limit", 30, 10, 1.0, "limit", unit="bytes")
    record("rounds", rounds, unit="rounds")


def raising(rounds: int) -> None:
    """Record a row and raise."""
    record("row before the error", 1.0)
    raise RuntimeError("the benchmark is broken")


def lacking(rounds: int) -> None:
    """Need a library that does not exist."""
    raise AssertionError


BENCHMARKS = (
    Benchmark(sleeps, rounds=3, quick=True),
    Benchmark(sizes, rounds=7),
    Benchmark(raising),
    Benchmark(lacking, needs=("no_such_library",)),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
