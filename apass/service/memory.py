"""`MemoryBudget`: the expected memory of the jobs that run at once."""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["MemoryBudget", "NeedsMemory"]

LEAST: Final = 2**22
"""Bytes that any job is expected to need."""

GUESS: Final = 8.0
"""Bytes per byte of the model, before a job of such a size has ended.

A model is in memory as a file, as an IR before and after a pass, and as the file of the result.
"""

FADING: Final = 0.9
"""How much of a peak is left after a job that needed less."""

KEPT: Final = 1_000
"""Kinds of jobs whose peaks are kept."""


@dataclass(slots=True, eq=False)
class NeedsMemory:
    """A job that waits or runs."""

    kind: Any
    """What jobs of similar needs have in common: the pipeline and the formats. It is hashable."""
    size: int
    """Bytes of the model."""


class MemoryBudget:
    """Admits jobs as long as their expected memory is within a limit.

    The expectation is the peak of earlier jobs of the same kind and about the same size, or else a guess by the size.
    A job that does not fit keeps its place: until it runs, others are admitted only to memory that it will not need.

    Parameters:
        limit: bytes of memory; None for no limit.

    """

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._running: dict[NeedsMemory, int] = {}
        """The expected memory of the jobs that run."""
        self._next: NeedsMemory | None = None
        """The job that is next, and does not fit."""
        self._before_next: set[NeedsMemory] = set()
        """The jobs that were admitted before it, although they came after it."""
        self._peaks: OrderedDict[Hashable, dict[int, float]] = OrderedDict()
        """The peaks of each kind of jobs, by the number of bits of the model's size."""

    @property
    def expected(self) -> int:
        """Bytes that the jobs that run are expected to need."""
        return sum(self._running.values())

    def fits(self, job: NeedsMemory) -> bool:
        """Return whether a job may run now. If not, the first such job is next."""
        if self._limit is None:
            return True
        need = self.need(job)
        # A job that needs more than the limit runs alone.
        has_room = not self._running or self.expected + need <= self._limit
        if self._next is None or self._next is job:
            if not has_room:
                self._next = job
            return has_room
        kept = self.need(self._next) + sum(self._running[other] for other in self._before_next)
        return has_room and kept + need <= self._limit

    def begin(self, job: NeedsMemory) -> None:
        """Note that a job runs."""
        if self._limit is None:
            return
        self._running[job] = self.need(job)
        if self._next is job:
            self.leave(job)
        elif self._next is not None:
            self._before_next.add(job)

    def end(self, job: NeedsMemory) -> None:
        """Note that a job does not run any more."""
        self._running.pop(job, None)
        self._before_next.discard(job)

    def leave(self, job: NeedsMemory) -> None:
        """Note that a job does not wait any more."""
        if self._next is job:
            self._next = None
            self._before_next.clear()

    def learn(self, job: NeedsMemory, used: int) -> None:
        """Note how many bytes a job needed at its peak."""
        peaks = self._peaks.setdefault(job.kind, {})
        self._peaks.move_to_end(job.kind)
        if len(self._peaks) > KEPT:
            self._peaks.popitem(last=False)
        bits = job.size.bit_length()
        peaks[bits] = max(used, FADING * peaks.get(bits, 0.0))

    def need(self, job: NeedsMemory) -> int:
        """Return how many bytes a job is expected to need."""
        peaks = self._peaks.get(job.kind, {})
        bits = job.size.bit_length()
        if bits in peaks:
            return max(LEAST, int(peaks[bits]))
        # What smaller models need does not depend on their size alone.
        smaller = max((peak for other, peak in peaks.items() if other < bits), default=0.0)
        return max(LEAST, int(smaller)) + int(GUESS * job.size)
