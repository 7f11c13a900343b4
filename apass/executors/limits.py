"""How many workers work at once: the slots of an executor, one set for each event loop."""

import os
from typing import Final

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

__all__ = ["NO_LIMIT", "Slots", "usable_cores"]


class Slots:
    """A CapacityLimiter for each event loop: a limiter belongs to one loop, and an executor serves any number."""

    def __init__(self, total: float) -> None:
        self._total = total
        self._limiter: RunVar[CapacityLimiter] = RunVar("apass executor slots")

    def here(self) -> CapacityLimiter:
        """Return the limiter of the event loop that runs."""
        try:
            return self._limiter.get()
        except LookupError:
            self._limiter.set(CapacityLimiter(self._total))
            return self._limiter.get()


NO_LIMIT: Final = Slots(float("inf"))
"""Lets all through: for pools of anyio's, whose executors have slots of their own."""


def usable_cores() -> int:
    """Return how many processors this program may use; how many workers there are where nobody says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
