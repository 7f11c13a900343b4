"""`Acceptance`: stores the jobs of an optimizer, and queues them."""

from contextlib import suppress
from dataclasses import replace
from time import time
from typing import Final

import anyio
from anyio.abc import TaskGroup

from apass.concurrency.signal import Signal
from apass.service.admission import Admission
from apass.service.dispatcher import Dispatcher, lost_failure
from apass.service.errors import IdempotencyError, JobsUnavailableError, OptimizerClosedError
from apass.service.job_request import request_key
from apass.service.job_store import Blob, JobStore, check_blob
from apass.service.jobs import JobRecord, JobState
from apass.service.limits import Limits
from apass.service.live_job import LiveJob, Observe

__all__ = ["Acceptance", "Found"]

DOUBT_SECONDS: Final = 1.0
"""Seconds between two looks for jobs that may have been stored although the store failed."""

Found = tuple[LiveJob | None, JobRecord]
"""A job, and its state unless it has ended."""


class Acceptance:
    """Stores jobs, and queues them; a part of `Optimizer`.

    Parameters:
        store: where jobs are kept.
        limits: the limits.
        observe: called with the events of jobs.
        reuse: whether a job may get the result of an equal one.

    """

    def __init__(self, store: JobStore, limits: Limits, observe: Observe, *, reuse: bool) -> None:
        self._store = store
        self._limits = limits
        self._observe = observe
        self._reuse = reuse
        self.live: Final[dict[str, LiveJob]] = {}
        """The jobs of this process that have not ended, by their ids."""
        self.refuses: bool = False
        """Whether the last job could not be stored, for example because the disk is full."""
        self._doubtful: dict[str, LiveJob] = {}
        """Jobs that may have been stored, although the store failed."""
        self._doubt = Signal()
        self._is_closed = False

    def start(self, group: TaskGroup, dispatcher: Dispatcher, admission: Admission) -> None:
        """Start the tasks that store jobs.

        Parameters:
            group: where they run.
            dispatcher: runs the jobs.
            admission: receives each job that has been stored.

        """
        self._group, self._dispatcher, self._admission = group, dispatcher, admission
        self.refuses = self._is_closed = False
        group.start_soon(self._resolve_doubts, name="apass resolve doubts")

    async def accept(self, record: JobRecord, blob: Blob, seconds: float | None) -> Found:
        """Store a job, and queue it unless it is done already.

        Parameters:
            record: the job.
            blob: its model.
            seconds: how long it may take. The clock of its deadline may be changed meanwhile.

        Raises:
            IdempotencyError: if the tenant has used the key for another job.
            OptimizerClosedError: if the optimizer ends.
            JobsUnavailableError: if the store cannot be used.

        """
        accepted: list[Found | Exception] = []
        decided = anyio.Event()
        live = self._new(record, seconds)

        async def accept() -> None:
            try:
                accepted.append(await self._add(live, blob))
                self.refuses = False
            except Exception as error:
                # Jobs that are accepted run, though the disk has no room for another one.
                if isinstance(error, JobsUnavailableError) and not error.is_full:
                    self._dispatcher.health.note_failure(error)
                accepted.append(error)
                self.refuses = isinstance(error, JobsUnavailableError)
            finally:
                self._admission.leave(record.tenant)
                decided.set()

        # The job may be stored already when the caller is cancelled, so that it has to run.
        self._group.start_soon(accept, name="apass accept job")
        await decided.wait()
        if not accepted:
            raise OptimizerClosedError("the optimizer has ended while the job was stored")
        if isinstance(accepted[0], Exception):
            raise accepted[0]
        return accepted[0]

    async def current(self, record: JobRecord) -> Found:
        """Return a job that the store has, given its record, which may be old."""
        doubtful = self._doubtful.pop(record.id, None)
        if doubtful is not None:
            self._begin(doubtful)
        live = self.live.get(record.id)
        if live is None and not record.ended:
            # It has ended since its record was read.
            record = await self._store.find(record.id) or record
        return live, record

    def resume(self, record: JobRecord) -> None:
        """Run a job that an earlier process has accepted."""
        self._begin(self._new(record, None if record.deadline is None else record.deadline - time()))

    def settle(self, live: LiveJob) -> None:
        """Wake the tasks that wait for the end of a job."""
        if self.live.get(live.record.id) is live:
            del self.live[live.record.id]
        live.settle()

    def close(self) -> None:
        """Let no task wait for jobs that do not end in this process."""
        self._is_closed = True
        for live in (*self.live.values(), *self._doubtful.values()):
            live.is_kept = True
            live.settle()
        self.live.clear()
        self._doubtful.clear()

    async def _add(self, live: LiveJob, blob: Blob) -> Found:
        record = live.record
        if record.idempotency_key is not None:
            # Not only `add` looks for it: the earlier job may not be stored yet.
            earlier = await self._store.find_idempotent(record.tenant, record.idempotency_key)
            if earlier is not None:
                return await self._same_request(earlier, record)
        equal = await self._store.find_done(record.tenant, record.key) if self._reuse else None
        # An index of the store may be damaged.
        if equal is not None and (equal.tenant, equal.key) == (record.tenant, record.key):
            with suppress(KeyError):  # the result has expired meanwhile, or is damaged
                return await self._add_done(live, equal, blob)
        # Another request with the same key may find it in the store before `add` returns.
        self.live[record.id] = live
        try:
            stored = await self._store.add(record, blob)
        except BaseException as error:
            del self.live[record.id]
            if isinstance(error, JobsUnavailableError):
                self._doubtful[record.id] = live
                self._doubt.notify()
            raise
        if stored.id != record.id:
            del self.live[record.id]
            return await self._same_request(stored, record)
        self._begin(live, blob.data if isinstance(blob.data, bytes) else None)
        return live, record

    async def _add_done(self, live: LiveJob, equal: JobRecord, blob: Blob) -> Found:
        """Store a job with the result of an equal one.

        Raises:
            KeyError: if the store has not that result.

        """
        for digest in (equal.result_digest, equal.report_digest):
            if digest is not None:
                await check_blob(self._store, digest)
        done = replace(
            live.record,
            state=JobState.DONE,
            finished=time(),
            result_kind=equal.result_kind,
            result_digest=equal.result_digest,
            result_size=equal.result_size,
            report_digest=equal.report_digest,
            summary=equal.summary,
            reused=True,
        )
        stored = await self._store.add(done, blob)
        if stored.id != done.id:
            return await self._same_request(stored, live.record)
        live.announce()
        live.change(stored)
        return None, stored

    async def _same_request(self, earlier: JobRecord, record: JobRecord) -> Found:
        """Return an earlier job with the same idempotency key."""
        if request_key(earlier) != request_key(record):
            raise IdempotencyError(
                f"the idempotency key {record.idempotency_key!r} was used for another job; use a new key"
            )
        return await self.current(earlier)

    def _new(self, record: JobRecord, seconds: float | None) -> LiveJob:
        live = LiveJob(record, self._limits.events, self._observe)
        if seconds is not None:
            live.loop_deadline = anyio.current_time() + seconds
        return live

    def _begin(self, live: LiveJob, model: bytes | None = None) -> None:
        """Queue a job that is stored."""
        record = live.record
        self.live[record.id] = live
        live.announce()
        if record.attempts >= self._limits.attempts:
            self._dispatcher.cancel(live, JobState.FAILED, lost_failure(record, "the server was stopped"))
        else:
            self._dispatcher.add(live, model)
        if self._is_closed:
            self.close()

    async def _resolve_doubts(self) -> None:
        """Run the jobs that were stored although the store has failed."""
        while True:
            while self._doubtful:
                await anyio.sleep(DOUBT_SECONDS)
                for job_id in tuple(self._doubtful):
                    try:
                        record = await self._store.find(job_id)
                    except JobsUnavailableError:
                        break
                    live = self._doubtful.pop(job_id, None)
                    if live is not None and record is not None:
                        self._begin(live)
            await self._doubt.wait()
