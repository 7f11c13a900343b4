"""`Job`: the handle of a job, for its result, its events and its cancellation."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeVar, cast

from apass.core.adapter import adapter_by_name, run_in_thread_if_safe
from apass.errors import AdapterError
from apass.instruments.report.page import render_data
from apass.service.errors import JobCancelledError, JobFailedError, NoResultError, OptimizerClosedError
from apass.service.job_store import JobStore, missing_blob, read_blob
from apass.service.jobs import JobEvent, JobRecord, JobState
from apass.service.live_job import LiveJob, state_data

__all__ = ["Job", "JobEvents"]

ResultT = TypeVar("ResultT")


class Job(Generic[ResultT]):
    """A job of an `Optimizer`, which `Optimizer.submit` and `Optimizer.find` return.

    Parameters:
        record: the record of the job.
        live: its state, unless the job had ended, or the optimizer, when it was found.
        store: where jobs are kept.
        cancel: cancels a job.
        check_loop: raises an error in another event loop than that of the optimizer.
        is_module: whether the result is a module, and not bytes.

    """

    def __init__(
        self,
        record: JobRecord,
        live: LiveJob | None,
        store: JobStore,
        cancel: "Callable[[Job[Any]], Awaitable[None]]",
        check_loop: Callable[[], None],
        *,
        is_module: bool,
    ) -> None:
        self._record = record
        self._live = live
        self._store = store
        self._cancel = cancel
        self._check_loop = check_loop
        self._is_module = is_module

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.record.name!r}: {self.record.state}>"

    @property
    def id(self) -> str:
        """The identifier of the job."""
        return self._record.id

    @property
    def record(self) -> JobRecord:
        """What is known about the job."""
        return self._record if self._live is None else self._live.record

    @property
    def recent_result(self) -> bytes | None:
        """The bytes of a small result that was computed just now; None to read the store."""
        return self._live.result if self._live is not None and self.record.state is JobState.DONE else None

    async def wait(self) -> JobRecord:
        """Wait until the job has ended, and return its record.

        Raises:
            OptimizerClosedError: if the optimizer has ended before the job, which a durable store keeps.

        """
        self._check_loop()
        if self._live is not None:
            await self._live.ended.wait()
        self._check_kept()
        return self.record

    async def result(self) -> ResultT:
        """Wait until the job has ended, and return its result.

        The result is a module if a module was submitted, and the bytes of its file otherwise.

        Raises:
            JobFailedError: if the job has failed.
            JobCancelledError: if the job was cancelled.
            NoResultError: if the result has expired.

        """
        record = await self.wait()
        if record.state is JobState.FAILED and record.failure is not None:
            raise JobFailedError(record.failure)
        if record.state is JobState.CANCELLED or record.result_digest is None:
            reason = "" if record.failure is None else f": {record.failure.message}"
            raise JobCancelledError(f"job {record.id} was cancelled{reason}")
        try:
            data = await read_blob(self._store, record.result_digest)
        except KeyError as error:
            raise missing_blob(f"the result of job {record.id}", error) from None
        if not self._is_module:
            return cast("ResultT", data)
        adapter = adapter_by_name(record.result_kind)
        if adapter is None:
            raise AdapterError(f"there is no IR adapter for modules of the class {record.result_kind!r}")
        return cast("ResultT", await run_in_thread_if_safe(adapter, None, partial(adapter.loads, data)))

    async def model(self) -> bytes:
        """Return the bytes of the model.

        Raises:
            NoResultError: if the model has expired.

        """
        try:
            return await read_blob(self._store, self._record.model_digest)
        except KeyError as error:
            raise missing_blob(f"the model of job {self.id}", error) from None

    async def report(self) -> str:
        """Wait until the job has ended, and return its report as an HTML page.

        Raises:
            NoResultError: if the job has no report.

        """
        record = await self.wait()
        if record.report_digest is None:
            raise NoResultError(f"job {record.id} has no report; it did not run, or was submitted without a report")
        try:
            return render_data(await read_blob(self._store, record.report_digest))
        except KeyError as error:
            raise missing_blob(f"the report of job {record.id}", error) from None

    def events(self, after: int = 0) -> "JobEvents":
        """Return the events of the job, for `async for`.

        They begin after the one with the id `after`. The iteration ends with the job, or the optimizer. If events are
        missing, because there were too many, an event of the kind `dropped` counts them.
        """
        if not isinstance(after, int) or after < 0:
            raise ValueError(f"after must be the id of an event, or 0, got {after!r}")
        return JobEvents(self.record, self._live, self._store, after, self._check_loop)

    async def cancel(self) -> JobRecord:
        """Cancel the job unless it has ended, and return its record.

        Raises:
            OptimizerClosedError: if the optimizer has ended before the job, which a durable store keeps.

        """
        self._check_loop()
        self._check_kept()
        await self._cancel(self)
        self._check_kept()
        return self.record

    def _check_kept(self) -> None:
        is_kept = not self.record.ended if self._live is None else self._live.is_kept
        if is_kept:
            raise OptimizerClosedError(f"the optimizer has ended before job {self.id} ({self.record.state})")


class JobEvents:
    """The events of a job, for `async for`."""

    def __init__(
        self, record: JobRecord, live: LiveJob | None, store: JobStore, after: int, check_loop: Callable[[], None]
    ) -> None:
        self._record = record
        self._live = live
        self._store = store
        self._after = after
        self._check_loop = check_loop
        self._stored: deque[JobEvent] = deque()
        """Events from the store."""
        self._needs_stored = live is None or live.is_resumed
        """Whether the store has events that come first."""

    def __aiter__(self) -> Self:
        self._check_loop()
        return self

    async def __anext__(self) -> JobEvent:
        """Return the next event; the iteration ends with the job."""
        if self._needs_stored:
            await self._read_stored()
        while (event := self._next()) is None:
            if self._live is None or self._live.ended.is_set():
                raise StopAsyncIteration
            await self._live.wait_for_news()
        return event

    def read_nowait(self, most: int) -> Sequence[JobEvent]:
        """Return at most so many further events that need no waiting."""
        events: list[JobEvent] = []
        while len(events) < most and not self._needs_stored and (event := self._next()) is not None:
            events.append(event)
        return events

    def _next(self) -> JobEvent | None:
        """Return the next event, if there is one."""
        if self._stored:
            event: JobEvent | None = self._stored.popleft()
        else:
            event = None if self._live is None else self._live.event_after(self._after)
        if event is not None:
            self._after = event.id
        return event

    async def _read_stored(self) -> None:
        record, live = self._record, self._live
        events = await self._store.events(record.id, self._after)
        if live is not None:
            events = [event for event in events if event.id < live.first_id]
        elif not events and record.ended and not self._after:
            # A job that got the result of another one has no events.
            events = [JobEvent(1, "state", record.finished or record.created, state_data(record))]
        self._stored.extend(events)
        self._needs_stored = False
