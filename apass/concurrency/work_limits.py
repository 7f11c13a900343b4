"""Time limits of work that do not count the time in a queue."""

from collections.abc import Generator
from contextlib import contextmanager
from math import inf
from threading import get_ident
from typing import Final

import anyio

from apass.concurrency.run_locals import RunLocal

__all__ = ["WorkLimit", "limited_work", "uncounted"]


class WorkLimit:
    """A time limit of a block, and a time at which the block ends in any case."""

    __slots__ = ("_ends", "_left", "_queued", "_stops", "scope", "thread")

    def __init__(self, seconds: float, left: float) -> None:
        now = anyio.current_time()
        self._stops = now + seconds
        """The time at which the limit is reached; infinite while it is paused."""
        self._ends: Final = now + left
        self._queued = 0
        self._left = inf
        self.scope: Final = anyio.CancelScope(deadline=min(self._stops, self._ends))
        """Cancels the block."""
        self.thread: Final = get_ident()
        """The thread of the event loop."""

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return anyio.current_time() >= self.scope.deadline

    @property
    def is_ended(self) -> bool:
        """Whether `left` ends the block, rather than its own limit."""
        return self._ends <= self._stops

    def pause(self) -> None:
        """Stop the clock until as many calls of `resume`."""
        self._queued += 1
        if self._queued == 1:
            self._left = self._stops - anyio.current_time()
            self._set(inf)

    def resume(self) -> None:
        """Undo one `pause`."""
        self._queued -= 1
        if not self._queued:
            self._set(anyio.current_time() + self._left)

    def _set(self, stops: float) -> None:
        self._stops = stops
        self.scope.deadline = min(stops, self._ends)


_LIMITS: Final[RunLocal[tuple[WorkLimit, ...]]] = RunLocal("work limits", ())


@contextmanager
def limited_work(seconds: float, left: float = inf) -> Generator[WorkLimit]:
    """Cancel the block when it has worked for some seconds.

    Parameters:
        seconds: the limit, which does not count the time in `uncounted`.
        left: seconds after which the block is cancelled in any case.

    """
    limit = WorkLimit(seconds, left)
    with _LIMITS.set_to((*_LIMITS.get(), limit)), limit.scope:
        yield limit


@contextmanager
def uncounted() -> Generator[None]:
    """Do not count the time of the block against the limits of the work around it.

    A task that waits in a queue for something scarce uses it: how long the others take says nothing about its work.
    """
    # A pass in a worker thread inherits the limits of its caller, which belong to another event loop.
    limits = [limit for limit in _LIMITS.get() if limit.thread == get_ident()]
    for limit in limits:
        limit.pause()
    try:
        yield
    finally:
        for limit in limits:
            limit.resume()
