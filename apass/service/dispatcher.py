"""`Dispatcher`: takes jobs from the queue, runs them, and stores how they end."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from pathlib import Path
from time import time
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from apass.errors import BudgetExceededError, WorkerLostError
from apass.service.errors import InvalidJobError, JobsUnavailableError
from apass.service.fair_queue import FairQueue
from apass.service.job_store import Blob, JobChange, JobStore, blob_of_file, read_blob, write_blob
from apass.service.jobs import JobFailure, JobRecord, JobState
from apass.service.limits import Limits
from apass.service.live_job import LiveJob
from apass.service.runners import JobRunner
from apass.service.work import INLINE, Work, WorkResult, describe_failure

__all__ = ["Dispatcher"]

CACHED: Final = 1 << 26
"""Bytes of the models of queued jobs that are kept in memory. Others are read from the store again."""

LEND_SECONDS: Final = 0.1
"""If jobs are shorter than this on average, one batch more than there are slots is prepared."""

VICTIM_SECONDS: Final = 0.5
"""Seconds that the other jobs of a batch have to finish, if one of them is cancelled."""

LATE_SECONDS: Final = 1.0
"""Seconds after its deadline in which a running job can report where it was."""

FIRST_GUESS: Final = 0.5
"""The assumed duration of a job before one has ended, in seconds."""

STORE_PAUSE: Final = (0.1, 5.0)
"""The shortest and the longest pause in seconds before a store that failed is tried again."""

MOST_ENDINGS: Final = 256
"""Jobs whose end is stored together."""


@dataclass(slots=True, eq=False)
class _Computation:
    """One or more equal jobs of a tenant, which are computed once."""

    tenant: str
    key: str
    jobs: dict[str, LiveJob]
    """The jobs that want the result, by their ids."""
    model: bytes | None
    """The model, if it is kept in memory."""
    cached: int = 0
    """The bytes of the model that count as those of queued jobs."""
    number: int = -1
    """Its number in the queue."""
    lost: int = 0
    """How many attempts have lost their worker. It then runs alone."""
    batch: "_Batch | None" = None
    """The batch that it runs in."""
    has_result: bool = False
    """Whether its batch has returned a result."""

    @property
    def record(self) -> JobRecord:
        """The record of the first job."""
        return next(iter(self.jobs.values())).record


@dataclass(slots=True, eq=False)
class _Batch:
    """Computations that run in one worker."""

    items: Sequence[_Computation]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    by_id: dict[str, _Computation] = field(default_factory=dict[str, _Computation])
    """The computations by the ids of their works."""


@dataclass(frozen=True, slots=True, eq=False)
class _Ending:
    """Jobs that have ended, and whose end is not stored yet."""

    jobs: Sequence[LiveJob]
    state: JobState
    result: WorkResult | None = None
    failure: JobFailure | None = None


class Dispatcher:
    """Runs jobs; a part of `Optimizer`.

    Parameters:
        store: where jobs are kept.
        runner: where jobs run.
        limits: the limits.
        make_work: returns the work of a job, given its record, its model and a folder for files.
        folder: a folder for files; it exists while the dispatcher runs.
        on_end: called when the end of a job is stored, or another server has taken it over.

    """

    def __init__(
        self,
        store: JobStore,
        runner: JobRunner,
        limits: Limits,
        make_work: Callable[[JobRecord, bytes | Path, Path | None], Awaitable[Work]],
        folder: Path,
        on_end: Callable[[LiveJob], None],
    ) -> None:
        self._store = store
        self._runner = runner
        self._limits = limits
        self._make_work = make_work
        self._folder = folder
        self._on_end = on_end
        self._queue: FairQueue[_Computation] = FairQueue(limits.weights)
        self._retries: deque[_Computation] = deque()
        self._by_key: dict[tuple[str, str], _Computation] = {}
        self._of_job: dict[str, _Computation] = {}
        self._running: dict[str, int] = {}
        """How many computations of each tenant run."""
        self._batches: set[_Batch] = set()
        self._cached = 0
        self._mean = FIRST_GUESS
        self._endings: deque[_Ending] = deque()
        self._deadlines: list[tuple[float, str]] = []
        self._news = anyio.Event()
        """Wakes the dispatch of jobs."""
        self._ending_news = anyio.Event()
        self._deadline_news = anyio.Event()
        self._idle = anyio.Event()
        """Set when a batch or the storing of ends is over, for `drain`."""
        self.room: anyio.Event = anyio.Event()
        """Set, and replaced, when a job has left the queue."""
        self.store_error: JobsUnavailableError | None = None
        """Why the store could not be used at the last attempt."""
        self.is_draining: bool = False
        """Whether no further job starts."""

    @property
    def queued(self) -> int:
        """How many computations wait."""
        return len(self._queue) + len(self._retries)

    @property
    def running(self) -> int:
        """How many computations run."""
        return sum(self._running.values())

    @property
    def slots(self) -> int:
        """How many batches run at once."""
        return self._runner.slots

    def waiting(self, tenant: str) -> int:
        """Return how many computations of a tenant wait."""
        return self._queue.waiting(tenant)

    def start(self, group: TaskGroup) -> None:
        """Start the tasks that run jobs."""
        self._group = group
        for task in (self._dispatch, self._store_endings, self._watch_deadlines):
            group.start_soon(task, name=f"apass {task.__name__.strip('_')}")

    def add(self, live: LiveJob, model: bytes | None) -> None:
        """Queue a job, or let it wait for an equal one of its tenant that waits or runs.

        Parameters:
            live: the job.
            model: its model, if the caller has it in memory.

        """
        record = live.record
        if live.loop_deadline is not None:
            heappush(self._deadlines, (live.loop_deadline, record.id))
            self._deadline_news.set()
        equal = self._by_key.get((record.tenant, record.key))
        if equal is not None and equal.jobs and not equal.has_result:
            first = next(iter(equal.jobs.values()))
            equal.jobs[record.id] = live
            self._of_job[record.id] = equal
            if equal.batch is not None:
                # The store learns of it with the result.
                live.change(_started(record, first.record.attempts))
            return
        is_cached = model is not None and self._cached + len(model) <= CACHED
        computation = _Computation(record.tenant, record.key, {record.id: live}, model if is_cached else None)
        computation.cached = len(computation.model or b"")
        self._cached += computation.cached
        self._by_key[record.tenant, record.key] = computation
        self._of_job[record.id] = computation
        if record.state is JobState.RUNNING:
            # Its server was lost, perhaps because of the job.
            computation.lost = 1
            self._retries.append(computation)
        else:
            computation.number = self._queue.add(computation, tenant=record.tenant, priority=record.priority)
        self._news.set()

    def cancel(self, live: LiveJob, state: JobState = JobState.CANCELLED, failure: JobFailure | None = None) -> None:
        """End a job that has not ended, in a given state."""
        if live.is_ending:
            return
        self._end([live], state, failure=failure)
        computation = self._detach(live)
        if computation is None or computation.jobs:
            return
        self._forget(computation)
        if computation.batch is None:
            if not self._queue.remove(computation.number, tenant=computation.tenant):
                with suppress(ValueError):
                    self._retries.remove(computation)
            self._leave_queue(computation)
            computation.model = None
        elif not any(other.jobs and not other.has_result for other in computation.batch.items):
            computation.batch.scope.cancel()
        else:
            self._group.start_soon(self._cancel_late, computation.batch, computation)

    def drop(self, live: LiveJob) -> None:
        """Stop the work on a job that another server has taken over."""
        live.is_lost = live.is_ending = True
        computation = self._detach(live)
        if computation is not None and not computation.jobs:
            self._forget(computation)
            if computation.batch is not None:
                self._group.start_soon(self._cancel_late, computation.batch, computation)
            else:
                self._queue.remove(computation.number, tenant=computation.tenant)
        self._settle(live)

    async def drain(self, seconds: float) -> None:
        """Start no further jobs, and wait for those that run; then cancel them.

        Cancelled jobs are queued again in a durable store, and end as cancelled in another one.
        """
        self.is_draining = True
        self.room.set()
        with anyio.move_on_after(seconds):
            while self._batches or self._endings:
                await self._idle.wait()
        for batch in self._batches:
            batch.scope.cancel()
        with anyio.move_on_after(seconds):
            while self._batches:
                await self._idle.wait()
            if self._store.is_durable:
                queued = [live for item in self._retries for live in item.jobs.values()]
                with suppress(JobsUnavailableError):
                    await self._store.update([JobChange(live.record, events=live.unstored()) for live in queued])
            else:
                for live in [live for item in self._by_key.values() for live in item.jobs.values()]:
                    self.cancel(live, failure=JobFailure("JobCancelledError", "the optimizer ended before the job"))
            while self._endings:
                await self._idle.wait()

    def _detach(self, live: LiveJob) -> _Computation | None:
        computation = self._of_job.pop(live.record.id, None)
        if computation is not None:
            computation.jobs.pop(live.record.id, None)
        return computation

    def _forget(self, computation: _Computation) -> None:
        """Let no further job wait for a computation."""
        if self._by_key.get((computation.tenant, computation.key)) is computation:
            del self._by_key[computation.tenant, computation.key]

    def _leave_queue(self, computation: _Computation) -> None:
        """Free what a computation occupies in the queue."""
        self._cached -= computation.cached
        computation.cached = 0
        self.room.set()
        self.room = anyio.Event()

    async def _cancel_late(self, batch: _Batch, computation: _Computation) -> None:
        """Cancel a batch unless a computation that is not wanted ends soon."""
        await anyio.sleep(VICTIM_SECONDS)
        if batch in self._batches and not computation.has_result:
            batch.scope.cancel()

    async def _dispatch(self) -> None:
        """Start batches while slots are free."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._may_start() and (items := self._next_items()):
                batch = _Batch(items)
                for item in items:
                    item.batch, item.has_result = batch, False
                self._batches.add(batch)
                self._group.start_soon(self._run_batch, batch, name="apass batch of jobs")

    def _may_start(self) -> bool:
        slots = self._runner.slots + (self._mean < LEND_SECONDS)
        return not self.is_draining and self.store_error is None and len(self._batches) < slots

    def _next_items(self) -> list[_Computation]:
        """Remove the computations of the next batch from the queue."""
        retry = next((item for item in self._retries if self._may_run(item.tenant)), None)
        if retry is not None:
            self._retries.remove(retry)
            self._take(retry)
            return [retry]
        items: list[_Computation] = []
        size = self._runner.batch_size(len(self._queue), self._mean)
        while len(items) < size and (item := self._queue.pop(self._may_run)) is not None:
            self._take(item)
            items.append(item)
        return items

    def _may_run(self, tenant: str) -> bool:
        most = self._limits.tenant_running
        return most is None or self._running.get(tenant, 0) < most

    def _take(self, item: _Computation) -> None:
        self._running[item.tenant] = self._running.get(item.tenant, 0) + 1
        # The real time is known at the end. Until then the tenant must not get all slots.
        self._queue.charge(item.tenant, self._mean)

    async def _run_batch(self, batch: _Batch) -> None:
        """Run a batch, and decide how its jobs go on."""
        error: Exception | None = None
        try:
            try:
                works = await self._begin(batch)
            except JobsUnavailableError as failure:
                self._note_store(failure)
                self._requeue(batch, count_attempt=False)
                return
            except anyio.get_cancelled_exc_class():
                self._requeue(batch, count_attempt=False)
                raise
            with batch.scope:
                try:
                    await self._runner.run(works, self._on_event, self._on_result)
                except Exception as failure:
                    error = failure
            left = [item for item in batch.items if item.jobs and not item.has_result]
            if batch.scope.cancelled_caught:
                # Other jobs of the batch were cancelled, or the optimizer ends.
                self._requeue(batch, count_attempt=False)
            else:
                for item in left:
                    self._retry(item, error, is_alone=len(batch.items) == 1)
        finally:
            for item in batch.items:
                self._release(item, batch)
            self._batches.discard(batch)
            self._news.set()
            self._wake_idle()

    def _release(self, item: _Computation, batch: _Batch) -> None:
        """Free what a computation occupies while it runs."""
        if item.batch is batch:
            item.batch = None
        self._running[item.tenant] -= 1
        if not self._running[item.tenant]:
            del self._running[item.tenant]

    async def _begin(self, batch: _Batch) -> list[Work]:
        """Store that the jobs of a batch run, and return the work on each computation."""
        changes: list[tuple[LiveJob, JobRecord]] = []
        for item in batch.items:
            self._leave_queue(item)
            changes += [(live, _started(live.record, live.record.attempts + 1)) for live in item.jobs.values()]
        is_ours = await self._store.update([JobChange(record) for _, record in changes])
        for (live, record), ours in zip(changes, is_ours, strict=True):
            if live.is_ending:
                continue
            if not ours:
                self.drop(live)
                continue
            live.change(record)
        works: list[Work] = []
        for item in batch.items:
            if item.jobs:
                work = await self._work_of(item)
                if work is not None:
                    batch.by_id[work.id] = item
                    works.append(work)
        return works

    async def _work_of(self, item: _Computation) -> Work | None:
        """Return the work of a computation, with its model; None if the model is lost."""
        record = item.record
        folder = self._folder if self._runner.shares_files else None
        model: bytes | Path | None = item.model
        item.model = None
        if model is None:
            try:
                if record.model_size > INLINE and folder is not None:
                    model = folder / f"{record.id}.model"
                    if not model.exists():
                        await write_blob(self._store, record.model_digest, model)
                else:
                    model = await read_blob(self._store, record.model_digest)
            except (KeyError, OSError) as error:
                if isinstance(error, JobsUnavailableError):
                    raise
                failure = JobFailure(type(error).__name__, f"the model of the job cannot be read: {error}")
                self._end_all(item, JobState.FAILED, failure=failure)
                return None
        try:
            work = await self._make_work(record, model, folder)
        except InvalidJobError as error:
            self._end_all(item, JobState.FAILED, failure=describe_failure(error))
            return None
        deadlines = [live.loop_deadline for live in item.jobs.values()]
        latest = None if None in deadlines else max(deadline for deadline in deadlines if deadline is not None)
        seconds = None if latest is None else max(1e-3, latest - anyio.current_time())
        return replace(work, seconds=seconds, has_lost_worker=item.lost > 0)

    def _on_event(self, work_id: str, kind: str, at: float, data: Mapping[str, Any]) -> None:
        item = self._item_of(work_id)
        if item is not None:
            for index, live in enumerate(item.jobs.values()):
                live.add_event(kind, at, data, is_shared=index > 0)

    def _on_result(self, work_id: str, result: WorkResult) -> None:
        item = self._item_of(work_id)
        if item is None:
            return
        item.has_result = True
        if result.summary is not None:
            self._mean += (result.summary.seconds - self._mean) / 8
            self._queue.charge(item.tenant, result.summary.seconds - self._mean)
        state = JobState.DONE if result.failure is None else JobState.FAILED
        self._end_all(item, state, result=result, failure=result.failure)

    def _item_of(self, work_id: str) -> _Computation | None:
        for batch in self._batches:
            if work_id in batch.by_id:
                item = batch.by_id[work_id]
                return None if item.has_result else item
        return None

    def _requeue(self, batch: _Batch, *, count_attempt: bool) -> None:
        """Queue the computations of a batch again that have no result."""
        for item in batch.items:
            if not item.jobs or item.has_result:
                continue
            for live in item.jobs.values():
                attempts = live.record.attempts - (not count_attempt and live.record.state is JobState.RUNNING)
                live.requeue(replace(live.record, state=JobState.QUEUED, attempts=attempts))
            item.batch = None
            self._retries.append(item)

    def _retry(self, item: _Computation, error: Exception | None, *, is_alone: bool) -> None:
        """Run a computation again whose worker was lost, if it has attempts left."""
        is_lost = error is None or isinstance(error, WorkerLostError)
        record = item.record
        if is_alone and not is_lost:
            assert error is not None, "a worker that is not lost returns a result or an error"
            self._end_all(item, JobState.FAILED, failure=describe_failure(error))
        elif record.attempts >= self._limits.attempts:
            self._end_all(item, JobState.FAILED, failure=lost_failure(record, str(error), self._running_pass(item)))
        else:
            item.lost += 1
            for live in item.jobs.values():
                live.requeue(replace(live.record, state=JobState.QUEUED))
            item.batch = None
            self._retries.append(item)

    def _running_pass(self, item: _Computation) -> str:
        return next((live.running_pass for live in item.jobs.values() if live.running_pass), "")

    def _end_all(self, item: _Computation, state: JobState, **outcome: Any) -> None:
        """End all jobs of a computation."""
        jobs = list(item.jobs.values())
        for live in jobs:
            self._of_job.pop(live.record.id, None)
        item.jobs.clear()
        self._forget(item)
        self._end(jobs, state, **outcome)

    def _end(
        self,
        jobs: Sequence[LiveJob],
        state: JobState,
        *,
        result: WorkResult | None = None,
        failure: JobFailure | None = None,
    ) -> None:
        for live in jobs:
            live.is_ending = True
        self._endings.append(_Ending(jobs, state, result, failure))
        self._ending_news.set()

    async def _store_endings(self) -> None:
        """Store how jobs end, many at a time; retry until the store accepts it."""
        while True:
            await self._ending_news.wait()
            self._ending_news = anyio.Event()
            while self._endings:
                endings = [self._endings[index] for index in range(min(MOST_ENDINGS, len(self._endings)))]
                await self._store_some(endings)
                for _ in endings:
                    self._endings.popleft()
                self._wake_idle()

    async def _store_some(self, endings: Sequence[_Ending]) -> None:
        changes: list[tuple[LiveJob, JobChange]] = []
        paths: list[Path] = []
        for ending in endings:
            blobs, changed = await self._outcome(ending)
            paths += [blob.data for blob in blobs if isinstance(blob.data, Path)]
            for live in ending.jobs:
                record = live.record
                if ending.state is JobState.DONE and "result_digest" not in changed:
                    # The model is its own result.
                    changed |= {"result_digest": record.model_digest, "result_size": record.model_size}
                ended = replace(record, state=ending.state, failure=ending.failure, finished=time(), **changed)
                live.change(ended)
                changes.append((live, JobChange(ended, blobs, live.unstored())))
        is_ours = await self._update([change for _, change in changes])
        for (live, _), ours in zip(changes, is_ours, strict=True):
            live.is_lost = not ours
            self._settle(live)
        for path in paths:
            with suppress(OSError):
                path.unlink()
        for ending in endings:
            for live in ending.jobs:
                with suppress(OSError):
                    (self._folder / f"{live.record.id}.model").unlink()

    async def _update(self, changes: Sequence[JobChange]) -> Sequence[bool]:
        """Make changes in the store; retry until it accepts them."""
        pause, longest = STORE_PAUSE
        while True:
            try:
                is_ours = await self._store.update(changes)
            except JobsUnavailableError as error:
                self._note_store(error)
                await anyio.sleep(pause)
                pause = min(longest, 2 * pause)
            else:
                self._note_store(None)
                return is_ours

    async def _outcome(self, ending: _Ending) -> tuple[list[Blob], dict[str, Any]]:
        """Return the blobs of a result, and the fields of the record."""
        result = ending.result
        if result is None:
            return [], {}
        blobs: list[Blob] = []
        changed: dict[str, Any] = {"summary": result.summary, "result_kind": result.kind}
        if result.result is not None:
            blob = await blob_of_file(result.result) if isinstance(result.result, Path) else Blob.of(result.result)
            blobs.append(blob)
            changed |= {"result_digest": blob.digest, "result_size": blob.size}
        if result.report is not None:
            blob = Blob.of(result.report)
            blobs.append(blob)
            changed["report_digest"] = blob.digest
        return blobs, changed

    def _settle(self, live: LiveJob) -> None:
        """Wake those that wait for a job."""
        live.ended.set()
        live.wake()
        self._on_end(live)

    def _note_store(self, error: JobsUnavailableError | None) -> None:
        earlier, self.store_error = self.store_error, error
        if error is None and earlier is not None:
            self._news.set()
        elif error is not None and earlier is None:
            self._group.start_soon(self._try_store)

    async def _try_store(self) -> None:
        """Dispatch jobs again when the store can be used."""
        pause, longest = STORE_PAUSE
        while self.store_error is not None:
            await anyio.sleep(pause)
            pause = min(longest, 2 * pause)
            try:
                await self._store.count()
            except JobsUnavailableError as error:
                self.store_error = error
            else:
                self._note_store(None)

    async def _watch_deadlines(self) -> None:
        """End the jobs whose deadline is over."""
        while True:
            while self._deadlines and self._deadlines[0][0] <= anyio.current_time():
                at, job_id = heappop(self._deadlines)
                self._check_deadline(at, job_id)
            until = self._deadlines[0][0] if self._deadlines else float("inf")
            with anyio.move_on_at(until):
                await self._deadline_news.wait()
            self._deadline_news = anyio.Event()

    def _check_deadline(self, at: float, job_id: str) -> None:
        item = self._of_job.get(job_id)
        if item is None:
            return
        live = item.jobs[job_id]
        is_first = at == live.loop_deadline
        if item.batch is not None and is_first:
            # The passes have the same deadline. They know more about where they are.
            heappush(self._deadlines, (at + LATE_SECONDS, job_id))
            return
        seconds = (live.record.deadline or 0.0) - live.record.created
        where = "while it was queued" if item.batch is None else f"in {live.running_pass or 'its passes'}"
        error = BudgetExceededError(f"the job ran out of its {seconds:.6g} s {where}")
        self.cancel(live, JobState.FAILED, JobFailure(type(error).__name__, str(error)))

    def _wake_idle(self) -> None:
        self._idle.set()
        self._idle = anyio.Event()


def _started(record: JobRecord, attempts: int) -> JobRecord:
    """Return the record of a job whose passes start."""
    return replace(record, state=JobState.RUNNING, attempts=attempts, starts=record.starts + 1, started=time())


def lost_failure(record: JobRecord, reason: str, running_pass: str = "") -> JobFailure:
    """Return the failure of a job whose attempts did not end."""
    where = f"; it ran {running_pass}" if running_pass else ""
    message = f"the job lost its worker or its server in each of {record.attempts} attempts: {reason}{where}"
    return JobFailure(WorkerLostError.__name__, message)
