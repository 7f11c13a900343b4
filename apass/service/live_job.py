"""`LiveJob`: a job that has not ended, with its events, in the server that has it."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from operator import attrgetter
from time import time
from typing import Any, Final

import anyio

from apass.service.jobs import JobEvent, JobRecord, JobState

__all__ = ["ATTEMPT", "LiveJob", "Observe", "state_data"]

Observe = Callable[[JobRecord, JobEvent], None]
"""Called with the record of a job, and an event."""

ATTEMPT: Final = 10**9
"""The ids of the events after each start of the passes begin with the number of starts times this.

They increase although the events of an attempt that was lost may not have been stored.
"""


class LiveJob:
    """A job whose record changes.

    Parameters:
        record: the record.
        limit: the number of events that are kept.
        observe: called with each event but the first, and but those of equal jobs about passes.

    """

    def __init__(self, record: JobRecord, limit: int, observe: Observe) -> None:
        self.record: JobRecord = record
        """The current record."""
        self.ended: Final = anyio.Event()
        """Set when the end of the job is stored."""
        self.loop_deadline: float | None = None
        """The deadline by the clock of the event loop."""
        self.events: list[JobEvent] = []
        """The latest events."""
        self.dropped: int = 0
        """How many events were dropped."""
        self.stored: int = 0
        """The id of the last event that is stored."""
        self.is_ending: bool = False
        """Whether it has ended, although its end may not be stored."""
        self.is_lost: bool = False
        """Whether another server has taken it over."""
        self.running_pass: str = ""
        """The pass that was started last, to name the cause of a lost worker."""
        self._limit = limit
        self._observe: Observe | None = None
        # The events of the attempt before, in another process, have ids in the first half.
        self._next_id = record.starts * ATTEMPT + (ATTEMPT // 2 if record.starts else 0) + 1
        self._last_dropped = 0
        self._news: anyio.Event | None = None
        """Set at the next event; None if nothing waits for it."""
        self.add_event("state", time(), state_data(record))
        # The job may not be stored yet. `announce` makes its first event known when it is.
        self._observe = observe

    def announce(self) -> None:
        """Let the first event be observed, after the job is stored."""
        if self._observe is not None:
            self._observe(self.record, self.events[0])

    def add_event(self, kind: str, at: float, data: Mapping[str, Any], *, is_shared: bool = False) -> JobEvent:
        """Add an event, and wake those that wait for it.

        Parameters:
            kind: the kind of the event.
            at: when it happened.
            data: its data.
            is_shared: whether it is observed already, for an equal job.

        """
        event = JobEvent(self._next_id, kind, at, data)
        self._next_id += 1
        self.events.append(event)
        if len(self.events) > 2 * self._limit:
            # Half of the list at once: to remove one element moves all others.
            self.dropped += len(self.events) - self._limit
            self._last_dropped = self.events[-self._limit - 1].id
            del self.events[: -self._limit]
        if kind == "started":
            function = f", function {data['function']!r}" if "function" in data else ""
            self.running_pass = f"pass {data.get('pass')!r}{function}"
        self.wake()
        if not is_shared and self._observe is not None:
            self._observe(self.record, event)
        return event

    def change(self, record: JobRecord) -> None:
        """Replace the record, and add an event if the state is another one."""
        is_other = (record.state, record.attempts) != (self.record.state, self.record.attempts)
        if record.starts > self.record.starts:
            self._next_id = record.starts * ATTEMPT + 1
        self.record = record
        if is_other:
            self.add_event("state", time(), state_data(record))

    def requeue(self, record: JobRecord) -> None:
        """Replace the record by that of a job that waits again."""
        self.record = record
        self.add_event("state", time(), state_data(record))

    def unstored(self) -> list[JobEvent]:
        """Return the events that are not stored."""
        return [event for event in self.events[-self._limit :] if event.id > self.stored]

    def event_after(self, event_id: int) -> JobEvent | None:
        """Return the first event whose id is greater; None if there is none yet.

        If events between them were dropped, return an event that counts them.
        """
        index = bisect_right(self.events, event_id, key=attrgetter("id"))
        if index == len(self.events):
            return None
        event = self.events[index]
        missing = self.dropped if index == 0 and event_id < self._last_dropped else 0
        if not missing:
            return event
        return JobEvent(self._last_dropped, "dropped", event.time, {"count": missing})

    def wake(self) -> None:
        """Wake those that wait for events or the end."""
        if self._news is not None:
            self._news.set()
            self._news = None

    async def wait_for_news(self) -> None:
        """Wait for the next event, or the end."""
        if self._news is None:
            self._news = anyio.Event()
        await self._news.wait()


def state_data(record: JobRecord) -> Mapping[str, Any]:
    """Return the data of a `state` event."""
    data: dict[str, Any] = {"state": str(record.state)}
    if record.attempts:
        data["attempt"] = record.attempts
    if record.failure is not None:
        data["error"] = f"{record.failure.kind}: {record.failure.message}"
    if record.state is JobState.DONE:
        data["size"] = record.result_size
    return data
