"""`JobNews`: the events of all jobs of a process, as they happen."""

from collections import deque
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Final, Self

from apass.concurrency.signal import Signal
from apass.service.jobs import JobEvent, JobRecord

__all__ = ["JobNews"]

MOST: Final = 1_000
"""Events that wait for a slow listener. The oldest are dropped."""


class JobNews:
    """The events of jobs with their records; see `Optimizer.listen`.

    Parameters:
        listeners: the set to be in, within the block.
        kinds: the kinds of events.
        tenant: the owner of the jobs; None for any.

    """

    def __init__(self, listeners: "set[JobNews]", kinds: Collection[str], tenant: str | None) -> None:
        self.dropped: int = 0
        """How many events were dropped because they were not read in time."""
        self._listeners = listeners
        self._kinds = kinds
        self._tenant = tenant
        self._waiting: deque[tuple[JobRecord, JobEvent]] = deque()
        self._arrived = Signal()
        self._has_ended = False

    def __enter__(self) -> Self:
        self._listeners.add(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listeners.discard(self)

    def add(self, record: JobRecord, event: JobEvent) -> None:
        """Add an event if it is one that the listener wants."""
        if event.kind not in self._kinds or self._tenant not in (None, record.tenant):
            return
        if len(self._waiting) == MOST:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append((record, event))
        self._arrived.notify()

    def end(self) -> None:
        """Let the iteration end after the events that wait.

        The optimizer has drained.
        """
        self._has_ended = True
        self._arrived.notify()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> tuple[JobRecord, JobEvent]:
        """Return the next event; raise StopAsyncIteration after the last one."""
        while not self._waiting:
            if self._has_ended:
                raise StopAsyncIteration
            await self._arrived.wait()
        return self._waiting.popleft()

    def read_nowait(self, most: int) -> Sequence[tuple[JobRecord, JobEvent]]:
        """Return at most so many events that wait."""
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
