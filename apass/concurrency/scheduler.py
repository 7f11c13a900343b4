"""`LoopScheduler`: slots for function bodies, and time slices of the event loop."""

from collections import deque
from threading import local
from time import perf_counter

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["LoopScheduler"]

SLICE_SECONDS = 0.004
"""How long work that never suspends may hold the loop before it yields; on trio two slices may follow each other."""

PAUSE_SECONDS = 0.005
"""If no pass has run in this context for this many seconds, assume that the event loop has run."""

BATCH = 32
"""Maximum number of waiters that are woken at a time.

One iteration of the loop costs as much as several short bodies.
"""


class LoopScheduler:
    """The slots and the current time slice that the runs in one context share.

    Belongs to no single run. When no pass is running, it is back in its initial state.
    """

    __slots__ = ("free", "last_end", "running", "slice", "slice_ends", "waiters")

    def __init__(self, slots: int | None) -> None:
        self.free: float = float("inf") if slots is None else slots
        """How many more bodies may be in flight beside the callers themselves."""
        self.running: int = 0
        """How many outermost passes have started and not ended."""
        self.slice: int = 0
        """The number of the current time slice."""
        self.slice_ends: float = 0.0
        """The `perf_counter` time at which the current slice expires."""
        self.last_end: float = 0.0
        """The `perf_counter` time at which an outermost pass last ended."""
        self.waiters: _WaitQueue = _WaitQueue()
        """The tasks that wait for a new slice, first in, first out."""

    def enter(self) -> bool:
        """Start an outermost pass; return whether it has to `yield_to_loop` first.

        After a pause, the pass runs in a new slice, else in the current one if that has time left.
        """
        # Not a coroutine that yields itself, because making one costs more than the rest.
        now = perf_counter()
        paused = self.running == 0 and now - self.last_end > PAUSE_SECONDS
        self.running += 1
        if now <= self.slice_ends:
            return False
        if paused:
            self._start_slice(now)
        return not paused

    def leave(self) -> None:
        """End an outermost pass; call it after `enter`."""
        self.running -= 1
        self.last_end = perf_counter()

    async def yield_to_loop(self) -> None:
        """Let the event loop run, and return in a slice that has time left.

        A task whose slice has expired joins a FIFO queue and sleeps until its batch is woken. The first task of the
        batch to resume starts a new slice, and the others share it. So timers and sockets are served once a slice,
        however many modules never suspend, and few tasks are woken before there is time for them.
        """
        expired: int | None = self.slice
        batch = self.waiters.enqueue()
        try:
            if batch.woken.is_set():
                await checkpoint()
            else:
                await batch.woken.wait()
                expired = None
            # The last slice may have ended in this iteration of the loop. A new one starts in the next iteration.
            while self.slice != expired:
                if perf_counter() < self.slice_ends:
                    return
                expired = self.slice
                await checkpoint()
            self._start_slice(perf_counter())
        finally:
            # A cancelled waiter leaves the queue too; the batches behind it must not wait for it.
            self.waiters.leave(batch, self.slice)

    def _start_slice(self, now: float) -> None:
        self.slice += 1
        self.slice_ends = now + SLICE_SECONDS


class _Batch:
    """Tasks that wait for a slice and are woken together."""

    __slots__ = ("waiting", "woken")

    def __init__(self) -> None:
        self.woken: anyio.Event = anyio.Event()
        """Set when all tasks queued before have had their slices."""
        self.waiting: int = 0
        """How many tasks wait."""


class _WaitQueue(local):
    """Batches of tasks, of which the first is awake.

    There is one queue for each thread, because each has its own event loop.
    """

    def __init__(self) -> None:
        self.batches: deque[_Batch] = deque()
        self.size: int = BATCH
        """How many tasks the next batch may have: twice as many as the last slice had time for."""
        self.slice: int = 0
        """The slice in which a task left last."""
        self.served: int = 0
        """How many tasks left in that slice."""

    def enqueue(self) -> _Batch:
        """Add a task at the end of the queue, and return its batch."""
        if not self.batches:
            self.batches.append(_Batch())
            self.batches[0].woken.set()
        elif self.batches[-1].waiting >= self.size:
            self.batches.append(_Batch())
        self.batches[-1].waiting += 1
        return self.batches[-1]

    def leave(self, batch: _Batch, slice_: int) -> None:
        """Remove a task; after the last one of the first batch, wake the next batch."""
        if slice_ != self.slice:
            # If long bodies fill a slice, the other tasks of a batch would be woken again and again, for nothing.
            self.size = min(2 * self.served, BATCH) or 1
            self.slice, self.served = slice_, 0
        self.served += 1
        batch.waiting -= 1
        while self.batches and not self.batches[0].waiting:
            self.batches.popleft()
            if self.batches:
                self.batches[0].woken.set()
