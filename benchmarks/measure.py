"""How the benchmarks measure: two jobs by turns in one process, the ratio of their medians, the collector at rest."""

import gc
import math
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

SAMPLE = 0.005
"""Seconds that a sample lasts at least: the collection before it leaves the processor's caches cold, for which the job
itself is not to blame, and which would be most of what a job of some microseconds takes."""

Job = Callable[[], object] | Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Ratio:
    """What one comparison gave."""

    name: str
    """What was measured."""
    ours: float
    """Median seconds of apass."""
    other: float
    """Median seconds of the peer or floor."""
    bound: float
    """What the ratio should be at most."""
    peer: str
    """What it was measured against."""

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.other

    def __str__(self) -> str:
        mark = "ok  " if self.ratio <= self.bound else "OVER"
        times = f"{self.ours * 1e6:11.1f} us {self.other * 1e6:11.1f} us"
        return f"{mark} {self.name:<58} {times}  {self.ratio:6.2f} of at most {self.bound:4.2f}  {self.peer}"


async def seconds(job: Job, times: int = 1) -> float:
    """Run a job so many times and return how long it took each time, on average."""
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


async def enough(job: Job) -> int:
    """Return how many times a job is to be run for one sample."""
    await seconds(job)
    return math.ceil(SAMPLE / await seconds(job))


async def compare(name: str, ours: Job, other: Job, bound: float, peer: str, rounds: int = 15) -> Ratio:
    """Run both jobs by turns, after a round that does not count, and print and return the ratio of their medians."""
    mine: list[float] = []
    theirs: list[float] = []
    our_times, their_times = await enough(ours), await enough(other)
    for _ in range(rounds):
        mine.append(await seconds(ours, our_times))
        theirs.append(await seconds(other, their_times))
    found = Ratio(name, statistics.median(mine), statistics.median(theirs), bound, peer)
    print(found, flush=True)
    return found
