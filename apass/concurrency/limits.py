"""Concurrency limits: the CPUs of this process, and slots for each event loop."""

import os
from typing import Final

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

__all__ = ["NO_LIMIT", "Slots", "usable_cores"]


class Slots:
    """A CapacityLimiter for each event loop.

    A limiter belongs to one event loop, but the object with the slots, such as an executor, may serve several loops.
    """

    def __init__(self, total: float) -> None:
        self._total = total
        self._limiter: RunVar[CapacityLimiter] = RunVar("apass executor slots")

    def here(self) -> CapacityLimiter:
        """Return the limiter of the running event loop."""
        try:
            return self._limiter.get()
        except LookupError:
            self._limiter.set(CapacityLimiter(self._total))
            return self._limiter.get()


NO_LIMIT: Final = Slots(float("inf"))
"""An unlimited limiter for anyio's thread and interpreter pools.

Executors limit their concurrency with their own slots.
"""


def usable_cores() -> int:
    """Return the number of CPUs for this process, the default number of workers."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1
