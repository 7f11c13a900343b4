"""Comparison of two jobs: they run alternately, without garbage collection."""

import gc
import math
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

SAMPLE = 0.005
"""Minimum duration of a sample, in seconds.

The collection before each sample leaves the caches of the processor cold. In a shorter sample, cold caches would be
most of the measured time of a job that takes microseconds.
"""

Job = Callable[[], object] | Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Result of a comparison."""

    name: str
    """Name of the row."""
    ours: float
    """Median seconds of apass."""
    other: float
    """Median seconds of the peer."""
    bound: float
    """Largest acceptable ratio."""
    peer: str
    """Name of the peer."""

    @property
    def ratio(self) -> float:
        """Time of apass divided by that of the peer."""
        return self.ours / self.other

    def __str__(self) -> str:
        mark = "ok  " if self.ratio <= self.bound else "OVER"
        times = f"{self.ours * 1e6:11.1f} us {self.other * 1e6:11.1f} us"
        return f"{mark} {self.name:<58} {times}  {self.ratio:6.2f} of at most {self.bound:4.2f}  {self.peer}"


async def seconds(job: Job, times: int = 1) -> float:
    """Run a job `times` times and return the mean duration in seconds."""
    gc.collect()
    gc.disable()
    try:
        start = perf_counter()
        for _ in range(times):
            result = job()
            if isinstance(result, Awaitable):
                await result
        return (perf_counter() - start) / times
    finally:
        gc.enable()


async def runs_per_sample(job: Job) -> int:
    """Return the number of runs of a job in one sample."""
    await seconds(job)
    return math.ceil(SAMPLE / await seconds(job))


async def compare(name: str, ours: Job, other: Job, bound: float, peer: str, rounds: int = 15) -> Ratio:
    """Run both jobs alternately, after a warm-up; print and return the ratio.

    The ratio is that of the medians over `rounds`.
    """
    our_seconds: list[float] = []
    other_seconds: list[float] = []
    our_runs, other_runs = await runs_per_sample(ours), await runs_per_sample(other)
    for _ in range(rounds):
        our_seconds.append(await seconds(ours, our_runs))
        other_seconds.append(await seconds(other, other_runs))
    result = Ratio(name, statistics.median(our_seconds), statistics.median(other_seconds), bound, peer)
    print(result, flush=True)
    return result
