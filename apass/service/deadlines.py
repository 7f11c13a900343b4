"""`Deadlines`: calls a function for each job whose deadline is over."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

import anyio

from apass.concurrency.signal import Signal
from apass.service.live_job import LiveJob

__all__ = ["Deadlines"]

SPARE: Final = 1_000
"""Entries of jobs that have ended which are kept, besides as many as those of other jobs."""


class Deadlines:
    """The deadlines of jobs, in the clock of the event loop.

    Parameters:
        on_due: called with a job that has not ended at the time it was added for.

    """

    def __init__(self, on_due: Callable[[LiveJob], None]) -> None:
        self._on_due = on_due
        self._heap: list[tuple[float, str, LiveJob]] = []
        self._limit = SPARE
        self._news = Signal()

    def add(self, live: LiveJob, at: float) -> None:
        """Call `on_due` for a job at some time, unless that is infinite."""
        if at == float("inf"):
            return
        heappush(self._heap, (at, live.record.id, live))
        if len(self._heap) > self._limit:
            # Most jobs end long before their deadline.
            self._heap = [entry for entry in self._heap if not entry[2].is_ending]
            heapify(self._heap)
            self._limit = SPARE + 2 * len(self._heap)
        if self._heap and self._heap[0][2] is live:
            self._news.notify()

    async def run(self) -> None:
        """Call `on_due` when it is time."""
        while True:
            while self._heap and self._heap[0][0] <= anyio.current_time():
                live = heappop(self._heap)[2]
                if not live.is_ending:
                    self._on_due(live)
            until = self._heap[0][0] if self._heap else float("inf")
            with anyio.move_on_at(until):
                await self._news.wait()
