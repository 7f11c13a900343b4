"""Measurement: two jobs run alternately, and the result is a row of the table."""

import gc
import math
import os
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

SAMPLE: Final = 0.02
"""Minimum duration of a sample, in seconds.

The collection before each sample leaves the caches of the processor cold. In a shorter sample, cold caches would be
most of the measured time of a job that takes microseconds. On a machine with other work, a sample of 5 ms also falls
between two time slices of the operating system, or does not: the ratios then vary twice as much.
"""

STEADY: Final = 0.1
"""Largest distance between the quartiles of the ratios, as a share of their median, after which no round is added."""

Clock = Callable[[], float]
"""`perf_counter`, or `process_time` for jobs that neither wait nor start processes or threads."""

Job = Callable[[], object] | Callable[[], Awaitable[object]]


@contextmanager
def cached_bytecode() -> Generator[dict[str, str]]:
    """Yield an environment for processes in which bytecode is cached.

    It is, in an installed package, even if the environment of the benchmarks forbids to write it.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True, slots=True)
class Row:
    """One result: a time of apass, alone or beside that of a peer.

    Times are medians in seconds. A ratio is that of apass to the peer, so smaller is better.
    """

    area: str
    """Name of the file."""
    name: str
    """What is measured."""
    ours: float
    """Time of apass."""
    other: float | None
    """Time of the peer, or the value of a limit; None if the row has no peer."""
    peer: str
    """What apass is compared with; empty if the row has no peer."""
    ratio: float | None
    """Median of the ratios of the rounds; None without a peer."""
    bound: float | None
    """Largest acceptable ratio; None if no bound is set."""
    spread: float | None = None
    """Distance between the quartiles of the ratios of the rounds; None if there was one measurement."""
    unit: str = "s"
    """Unit of `ours` and `other`: seconds or bytes."""
    backend: str = ""
    """Event loop; empty if none is involved."""

    @property
    def holds(self) -> bool | None:
        """Whether the ratio is within the bound; None without a bound."""
        return None if self.bound is None or self.ratio is None else self.ratio <= self.bound

    @property
    def mark(self) -> str:
        """The result as a word: `ok`, `OVER`, or nothing without a bound."""
        return {True: "ok", False: "OVER", None: ""}[self.holds]

    def __str__(self) -> str:
        other = "" if self.other is None else quantity(self.other, self.unit)
        ratio = "" if self.ratio is None else f"{self.ratio:6.2f}"
        spread = "" if self.spread is None else f"spread {self.spread:.2f}"
        bound = "" if self.bound is None else f"of at most {self.bound:.2f}"
        ours = quantity(self.ours, self.unit)
        text = f"{self.mark:<4} {self.name:<58} {ours:>10} {other:>10}  {ratio:>6} {spread:<11} {bound:<15}"
        return f"{text}  {self.peer}".rstrip()


def quantity(value: float, unit: str) -> str:
    """Return a value with three digits and its unit; seconds as us, ms or s."""
    if unit != "s":
        return f"{value:.0f} {unit}"
    scale, name = next(((scale, name) for scale, name in ((1e6, "us"), (1e3, "ms")) if value * scale < 1000), (1, "s"))
    digits = max(0, 2 - math.floor(math.log10(max(value * scale, 0.01))))
    return f"{value * scale:.{min(digits, 2)}f} {name}"


@dataclass(slots=True)
class Session:
    """The running benchmark: its settings, and the rows that it has recorded."""

    area: str = ""
    """Name of the file."""
    backend: str = ""
    """Event loop; empty for a benchmark that is no coroutine function."""
    quick: bool = False
    """Whether the run is of the quick subset, so that jobs should be small."""
    rows: list[Row] = field(default_factory=list[Row])
    """The rows so far."""


SESSION: Final[ContextVar[Session | None]] = ContextVar("SESSION", default=None)
"""The running benchmark."""


def session() -> Session:
    """Return the running benchmark, or an empty one outside of `python -m benchmarks`."""
    return SESSION.get() or Session()


def record(
    name: str,
    ours: float,
    other: float | None = None,
    bound: float | None = None,
    peer: str = "",
    *,
    ratio: float | None = None,
    spread: float | None = None,
    unit: str = "s",
) -> Row:
    """Add a row to the running benchmark; print and return it.

    A limit that is no measurement is given as `other`, with a bound of 1.
    """
    current = session()
    if ratio is None and other is not None:
        ratio = ours / other
    row = Row(current.area, name, ours, other, peer, ratio, bound, spread, unit, current.backend)
    current.rows.append(row)
    print(row, flush=True)
    return row


async def seconds(job: Job, times: int = 1, clock: Clock = perf_counter) -> float:
    """Run a job `times` times and return the mean duration in seconds."""
    gc.collect()
    gc.disable()
    try:
        start = clock()
        for _ in range(times):
            result = job()
            if isinstance(result, Awaitable):
                await result
        return (clock() - start) / times
    finally:
        gc.enable()


async def runs_per_sample(job: Job, clock: Clock = perf_counter) -> int:
    """Return the number of runs of a job in one sample."""
    await seconds(job)
    return math.ceil(SAMPLE / await seconds(job, clock=clock))


async def compare(
    name: str,
    ours: Job,
    other: Job,
    bound: float | None,
    peer: str,
    rounds: int = 15,
    *,
    clock: Clock = perf_counter,
) -> Row:
    """Run both jobs alternately, after a warm-up; print, record and return the row.

    Other work on the machine slows down both samples of a round alike. The ratio is therefore taken in each round, and
    the row has the median of these ratios. Every second round runs the peer first. As long as the quartiles are far
    from each other, there are more rounds, up to three times as many.

    With `clock=process_time` the row has processor time, which other processes hardly change.
    """
    our_seconds: list[float] = []
    other_seconds: list[float] = []
    our_runs, other_runs = await runs_per_sample(ours, clock), await runs_per_sample(other, clock)
    for number in range(3 * rounds):
        if number >= rounds and is_steady(our_seconds, other_seconds):
            break
        if number % 2:
            other_seconds.append(await seconds(other, other_runs, clock))
            our_seconds.append(await seconds(ours, our_runs, clock))
        else:
            our_seconds.append(await seconds(ours, our_runs, clock))
            other_seconds.append(await seconds(other, other_runs, clock))
    return record_rounds(name, our_seconds, other_seconds, bound, peer)


def is_steady(ours: list[float], other: list[float]) -> bool:
    """Return whether the quartiles of the ratios are close to their median."""
    return spread_of(ours, other) <= STEADY * statistics.median(ratios_of(ours, other))


def ratios_of(ours: list[float], other: list[float]) -> list[float]:
    """Return the ratio of each round."""
    return [our_time / other_time for our_time, other_time in zip(ours, other, strict=True)]


def spread_of(ours: list[float], other: list[float]) -> float:
    """Return the distance between the quartiles of the ratios; 0 for one round."""
    ratios = ratios_of(ours, other)
    if len(ratios) == 1:
        return 0.0
    quartiles = statistics.quantiles(ratios, n=4, method="inclusive")
    return quartiles[2] - quartiles[0]


def record_rounds(name: str, ours: list[float], other: list[float], bound: float | None, peer: str) -> Row:
    """Record a row from the seconds of both jobs in each round."""
    ratio = statistics.median(ratios_of(ours, other))
    spread = spread_of(ours, other) if len(ours) > 1 else None
    return record(name, statistics.median(ours), statistics.median(other), bound, peer, ratio=ratio, spread=spread)
