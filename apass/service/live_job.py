"""`LiveJob`: a job that has not ended, with its events."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from operator import attrgetter
from time import time
from typing import Any, Final

import anyio

from apass.concurrency.signal import Signal
from apass.service.jobs import JobEvent, JobRecord, JobState

__all__ = ["ATTEMPT", "LiveJob", "Observe", "state_data"]

Observe = Callable[[JobRecord, JobEvent], None]
"""Called with the record of a job, and an event."""

ATTEMPT: Final = 10**9
"""The ids of the events after each start of the passes begin with the number of starts times this.

They increase although the events of an attempt that was lost may not have been stored.
"""

RESUMED: Final = ATTEMPT // 2
"""Added to the ids if another process has started the passes last: it has used the ids before."""


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
        """Set when the end of the job is stored, or the job cannot end in this process."""
        self.loop_deadline: float = float("inf")
        """The deadline by the clock of the event loop."""
        self.events: list[JobEvent] = []
        """The latest events."""
        self.is_ending: bool = False
        """Whether it has ended, although its end may not be stored."""
        self.is_kept: bool = False
        """Whether the optimizer has ended before the job."""
        self.is_resumed: Final = record.starts > 0
        """Whether another process has run it before."""
        self.has_run: bool = False
        """Whether this process has begun an attempt."""
        self.result: bytes | None = None
        """The bytes of its result, if they are few and this process has computed them."""
        self._running: dict[tuple[object, ...], tuple[str, str | None]] = {}
        """The passes and bodies that have started and not ended, with their functions."""
        self._limit = limit
        self._observe: Observe | None = None
        self._next_id = record.starts * ATTEMPT + self.is_resumed * RESUMED + 1
        self._dropped: list[tuple[int, int]] = []
        """The first and the last id of each range of dropped events."""
        self._news = Signal()
        self.add_event("state", time(), state_data(record))
        self.first_id: Final = self.events[0].id
        """The id of its first event in this process."""
        # The job may not be stored yet. `announce` makes its first event known when it is.
        self._observe = observe

    def running_pass(self) -> tuple[str, str | None] | None:
        """Return the innermost pass that runs, and its function if that is known."""
        return next(reversed(self._running.values()), None)

    def announce(self) -> None:
        """Let the first event be observed, after the job is stored."""
        if self._observe is not None:
            self._observe(self.record, self.events[0])

    def add_event(self, kind: str, at: float, data: Mapping[str, Any], *, is_shared: bool = False) -> None:
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
            self._drop_events()
        if kind in ("started", "finished", "failed"):
            run = data.get("path"), data.get("function"), data.get("body")
            if kind == "started":
                self._running[run] = data.get("pass", ""), data.get("function")
            else:
                self._running.pop(run, None)
        self._news.notify()
        if not is_shared and self._observe is not None:
            self._observe(self.record, event)

    def change(self, record: JobRecord) -> None:
        """Replace the record, and add an event if the state is another one."""
        is_other = (record.state, record.attempts) != (self.record.state, self.record.attempts)
        if record.starts > self.record.starts:
            self.has_run = True
            self._running.clear()
        self._next_id = max(self._next_id, record.starts * ATTEMPT + 1)
        self.record = record
        if is_other:
            self.add_event("state", record.finished or time(), state_data(record))

    def last_events(self, end: JobRecord | None = None) -> list[JobEvent]:
        """Return the latest events, for the store.

        Parameters:
            end: the final record, whose event `change` adds after it is stored.

        """
        events = self.events[-self._limit :]
        if end is not None:
            events.append(JobEvent(self._next_id, "state", end.finished or time(), state_data(end)))
        return events

    def events_of_attempt(self) -> list[JobEvent]:
        """Return the events about the passes of the current attempt."""
        start = self.record.starts * ATTEMPT
        return [event for event in self.events if event.id > start and event.kind != "state"]

    def event_after(self, event_id: int) -> JobEvent | None:
        """Return the first event whose id is greater; None if there is none yet.

        If events between them were dropped, return an event that counts them.
        """
        index = bisect_right(self.events, event_id, key=attrgetter("id"))
        if index == len(self.events):
            return None
        event = self.events[index]
        if index or not self._dropped or event_id >= self._dropped[-1][1]:
            return event
        count = sum(max(0, last - max(first - 1, event_id)) for first, last in self._dropped)
        return JobEvent(self._dropped[-1][1], "dropped", event.time, {"count": count})

    async def wait_for_news(self) -> None:
        """Wait for the next event, or the end."""
        await self._news.wait()

    def settle(self) -> None:
        """Wake those that wait for the end, because it is stored or not to come here."""
        self.ended.set()
        self._news.notify()

    def _drop_events(self) -> None:
        # Half of the list at once: to remove one element moves all others.
        for event in self.events[: -self._limit]:
            if self._dropped and self._dropped[-1][1] + 1 == event.id:
                self._dropped[-1] = self._dropped[-1][0], event.id
            else:
                self._dropped.append((event.id, event.id))
        del self.events[: -self._limit]


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
