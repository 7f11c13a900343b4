"""`Dispatcher`: takes jobs from the queue, and runs them."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import time
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from apass.concurrency.signal import Signal
from apass.errors import BudgetExceededError, ClusterLostError, OutOfMemoryError, WorkerLostError
from apass.service.deadlines import Deadlines
from apass.service.endings import Ending, Endings
from apass.service.errors import InvalidJobError, JobsUnavailableError
from apass.service.fair_queue import FairQueue
from apass.service.job_store import JobChange, JobStore, read_blob, write_blob
from apass.service.jobs import JobFailure, JobRecord, JobState
from apass.service.limits import Limits
from apass.service.live_job import LiveJob
from apass.service.memory import MemoryBudget, NeedsMemory
from apass.service.runners import JobRunner
from apass.service.store_health import StoreHealth
from apass.service.work import INLINE, SMALL, Work, WorkResult, describe_failure, remove_files

__all__ = ["Dispatcher", "lost_failure"]

CACHED: Final = 1 << 26
"""Bytes of the models of queued jobs that are kept in memory. Others are read from the store again."""

LEND_SECONDS: Final = 0.1
"""If jobs are shorter than this on average, one batch more than there are slots may be prepared."""

VICTIM_SECONDS: Final = 0.5
"""Seconds that the other jobs of a batch have to finish, if one of them is cancelled."""

LATE_SECONDS: Final = 1.0
"""Seconds after its deadline in which a running job can report where it was."""

GROWTH_SECONDS: Final = 1.0
"""Seconds after which jobs that wait are sent to workers that have joined."""

FIRST_GUESS: Final = 0.5
"""The assumed duration of a job before one has ended, in seconds."""


@dataclass(slots=True, eq=False)
class _Computation(NeedsMemory):
    """One or more equal jobs of a tenant, which are computed once.

    It is in the queue, among the retries, or in a batch.
    """

    tenant: str
    key: str
    jobs: dict[str, LiveJob]
    """The jobs that want the result, by their ids. At least one, until it ends."""
    model: bytes | None
    """The model, if it is kept in memory."""
    priority: int
    """The greatest priority of the jobs."""
    number: int = -1
    """Its number in the queue."""
    lost: int = 0
    """How many attempts have lost their worker. It then runs alone."""
    batch: "_Batch | None" = None
    """The batch that it runs in."""
    work: Work | None = None
    """Its work, once that is about to begin."""
    deadline: float | None = None
    """When its passes have to end, by the clock of the event loop; None if it has not begun."""
    has_result: bool = False
    """Whether its batch has returned a result."""

    def is_wanted(self) -> bool:
        """Return whether a job waits for a result that has not arrived."""
        return bool(self.jobs) and not self.has_result


@dataclass(slots=True, eq=False)
class _Batch:
    """Computations that run in one worker."""

    items: Sequence[_Computation]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    started: float = field(default_factory=anyio.current_time)


class Dispatcher:
    """Runs jobs; a part of `Optimizer`.

    Parameters:
        store: where jobs are kept.
        runner: where jobs run.
        limits: the limits.
        make_work: returns the work of a job, given its record, its model and a folder for files.
        folder: a folder for files; it exists while the dispatcher runs.
        on_end: called when the end of a job is stored.
        on_room: called when a job has left the queue.

    """

    def __init__(
        self,
        store: JobStore,
        runner: JobRunner,
        limits: Limits,
        make_work: Callable[[JobRecord, bytes | Path, Path | None], Awaitable[Work]],
        folder: Path,
        on_end: Callable[[LiveJob], None],
        on_room: Callable[[], None],
    ) -> None:
        self._store = store
        self._runner = runner
        self._limits = limits
        self._make_work = make_work
        self._folder = folder
        self._on_room = on_room
        self._queue: FairQueue[_Computation] = FairQueue(limits.weights, FIRST_GUESS)
        self._retries: deque[_Computation] = deque()
        self._by_key: dict[tuple[str, str], _Computation] = {}
        """The computations that further equal jobs may wait for, by tenant and key."""
        self._of_job: dict[str, _Computation] = {}
        self._of_work: dict[str, _Computation] = {}
        """The computations in batches, by the ids of their works."""
        self._memory = MemoryBudget(limits.memory_bytes)
        self._running: dict[str, int] = {}
        """How many computations of each tenant are in batches."""
        self._batches: set[_Batch] = set()
        self._cached = 0
        self._news = Signal()
        self._batch_ended = Signal()
        self.health: Final = StoreHealth(store, self._news.notify)
        """Whether the store can be used."""
        self._endings = Endings(store, self.health, on_end)
        self._deadlines = Deadlines(self._check_deadline)
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
        """Return how many computations of a tenant wait in the queue."""
        return self._queue.waiting(tenant)

    def start(self, group: TaskGroup) -> None:
        """Start the tasks that run jobs."""
        self._group = group
        group.start_soon(self._dispatch, name="apass dispatch")
        group.start_soon(self._endings.run, name="apass store endings")
        group.start_soon(self._deadlines.run, name="apass watch deadlines")
        group.start_soon(self.health.run, name="apass watch store")

    def add(self, live: LiveJob, model: bytes | None) -> None:
        """Queue a job. If the tenant has an equal job queued or running, attach to it.

        Parameters:
            live: the job.
            model: its model, if the caller has it in memory.

        """
        record = live.record
        self._deadlines.add(live, live.loop_deadline)
        equal = self._by_key.get((record.tenant, record.key))
        # Passes that run have the latest deadline of the jobs that waited when they began.
        if equal is not None and (equal.deadline is None or live.loop_deadline <= equal.deadline):
            self._join(live, equal)
            return
        cached = model if model is not None and self._cached + len(model) <= CACHED else None
        self._cached += len(cached or b"")
        kind = (record.pipeline, record.kind, record.result_kind)
        item = _Computation(
            kind, record.model_size, record.tenant, record.key, {record.id: live}, cached, record.priority
        )
        self._by_key[record.tenant, record.key] = item
        self._of_job[record.id] = item
        if record.attempts:
            # Its worker or its server was lost, perhaps because of the job.
            item.lost = 1
            self._retries.append(item)
        else:
            item.number = self._queue.add(item, tenant=item.tenant, priority=item.priority)
        self._news.notify()

    def cancel(self, live: LiveJob, state: JobState = JobState.CANCELLED, failure: JobFailure | None = None) -> None:
        """End a job that has not ended, in a given state."""
        if not live.is_ending:
            self._endings.add(Ending([live], state, failure))
            self._leave(live)

    def stop(self) -> None:
        """Start no further jobs, and cancel those that run."""
        self.is_draining = True
        for batch in self._batches:
            batch.scope.cancel()

    async def drain(self, until: float, grace: float) -> None:
        """Start no further jobs, and wait for those that run; then cancel them.

        Cancelled jobs are queued again in a durable store, and end as cancelled in another one.

        Parameters:
            until: when jobs that run are cancelled, by the clock of the event loop.
            grace: the seconds that each further step has.

        """
        self.is_draining = True
        with anyio.move_on_at(until):
            await self._wait_for_batches()
        self.stop()
        with anyio.move_on_after(grace):
            await self._wait_for_batches()
        if not self._store.is_durable:
            failure = JobFailure("JobCancelledError", "the optimizer ended before the job")
            for job_id, item in list(self._of_job.items()):
                self.cancel(item.jobs[job_id], failure=failure)
        with anyio.move_on_after(grace):
            await self._endings.wait_stored()
        if self._store.is_durable:
            with anyio.move_on_after(grace):
                await self._keep_jobs()

    async def _wait_for_batches(self) -> None:
        while self._batches:
            await self._batch_ended.wait()

    async def _keep_jobs(self) -> None:
        """Store the state of jobs whose attempt was interrupted, for the next start."""
        # On asyncio, a pass that ends the event loop may return an error afterwards. Its attempt counts.
        kept = [live.record for live in self._endings.never_stored()]
        kept = [replace(record, state=JobState.QUEUED) for record in kept if record.state is JobState.RUNNING]
        changes = [JobChange(record) for record in kept]
        for item in self._retries:
            changes += [
                JobChange(live.record, events=live.last_events()) for live in item.jobs.values() if live.has_run
            ]
        # Without it, these jobs count as lost with the server.
        with suppress(JobsUnavailableError):
            await self._store.update(changes)

    def _join(self, live: LiveJob, equal: _Computation) -> None:
        """Let a job wait for an equal one."""
        record, first = live.record, next(iter(equal.jobs.values()))
        equal.jobs[record.id] = live
        self._of_job[record.id] = equal
        if equal.deadline is not None:
            self._start_late(live)
            for event in first.events_of_attempt():
                live.add_event(event.kind, event.time, event.data, is_shared=True)
        if record.priority > equal.priority:
            equal.priority = record.priority
            if self._queue.remove(equal.number, tenant=equal.tenant):
                equal.number = self._queue.add(equal, tenant=equal.tenant, priority=equal.priority)

    def _start_late(self, live: LiveJob) -> None:
        """Begin an attempt of a job whose computation has begun."""
        live.change(_started(live.record))
        self._group.start_soon(self._store_start, live)

    async def _store_start(self, live: LiveJob) -> None:
        """Store that a job runs, so that lists and counts agree."""
        if live.is_ending or live.record.state is not JobState.RUNNING:
            return
        try:
            await self._store.update([JobChange(live.record)])
        except JobsUnavailableError as error:
            self.health.note_failure(error)

    def _leave(self, live: LiveJob) -> None:
        """Stop the work on a job, unless others want its result."""
        item = self._of_job.pop(live.record.id, None)
        if item is None:
            return
        del item.jobs[live.record.id]
        if item.jobs:
            return
        self._forget(item)
        batch = item.batch
        if batch is None:
            self._memory.leave(item)
            if not self._queue.remove(item.number, tenant=item.tenant):
                self._retries.remove(item)
            self._release_model(item)
            self._on_room()
        elif not any(other.is_wanted() for other in batch.items):
            batch.scope.cancel()
        elif item.work is not None:
            self._group.start_soon(self._cancel_late, batch, item)

    def _forget(self, item: _Computation) -> None:
        """Let no further job wait for a computation."""
        if self._by_key.get((item.tenant, item.key)) is item:
            del self._by_key[item.tenant, item.key]

    def _release_model(self, item: _Computation) -> bytes | None:
        """Return the model if it is in memory, and keep it no longer."""
        model, item.model = item.model, None
        self._cached -= len(model or b"")
        return model

    async def _cancel_late(self, batch: _Batch, item: _Computation) -> None:
        """Cancel a batch unless a computation that is not wanted ends soon."""
        await anyio.sleep(VICTIM_SECONDS)
        if batch in self._batches and not item.has_result:
            batch.scope.cancel()

    async def _dispatch(self) -> None:
        """Start batches while slots are free."""
        while True:
            while self._may_start() and (items := self._next_items()):
                batch = _Batch(items)
                for item in items:
                    item.batch = batch
                self._batches.add(batch)
                self._group.start_soon(self._run_batch, batch, name="apass batch of jobs")
            with anyio.move_on_after(GROWTH_SECONDS if len(self._queue) else None):
                await self._news.wait()

    def _may_start(self) -> bool:
        slots = self._runner.slots + (self._runner.queues and self._queue.mean < LEND_SECONDS)
        return not self.is_draining and self.health.error is None and len(self._batches) < slots

    def _next_items(self) -> list[_Computation]:
        """Remove the computations of the next batch from the queue."""
        items: list[_Computation] = []
        retry = next((item for item in self._retries if self._may_run(item.tenant) and self._memory.fits(item)), None)
        if retry is not None:
            self._retries.remove(retry)
            self._queue.begin(retry.tenant)
            items.append(retry)
            self._take(retry)
        else:
            # If jobs run once only, one that loses its worker must not take others along.
            size = self._runner.batch_size(len(self._queue), self._queue.mean) if self._limits.attempts > 1 else 1
            while len(items) < size and (item := self._queue.pop(self._may_run, self._memory.fits)) is not None:
                items.append(item)
                self._take(item)
        if items:
            self._on_room()
        return items

    def _may_run(self, tenant: str) -> bool:
        most = self._limits.tenant_running
        return most is None or self._running.get(tenant, 0) < most

    def _take(self, item: _Computation) -> None:
        self._running[item.tenant] = self._running.get(item.tenant, 0) + 1
        self._memory.begin(item)

    async def _run_batch(self, batch: _Batch) -> None:
        """Run a batch, and decide how its jobs go on."""
        error: Exception | None = None
        has_crashed, is_interrupted = False, False
        try:
            with batch.scope:
                try:
                    works = await self._begin(batch)
                    if works:
                        await self._runner.run(works, self._on_event, self._on_result)
                except JobsUnavailableError as failure:
                    self.health.note_failure(failure)
                    is_interrupted = True
                except Exception as failure:
                    error = failure
        except anyio.get_cancelled_exc_class():
            is_interrupted = True
            raise
        except BaseException:
            # It ends the program. The job must not start again before the other tasks are cancelled.
            has_crashed = self.is_draining = True
            raise
        finally:
            # There is no checkpoint from here on: each computation leaves the batch for another place.
            for item in batch.items:
                if item.is_wanted():
                    if has_crashed:
                        # The job may be the cause, and must not end each start of the program.
                        self._run_again(item, is_lost=True)
                    elif is_interrupted or batch.scope.cancel_called or isinstance(error, ClusterLostError):
                        # Other jobs of the batch were cancelled, the optimizer ends, or the store or the cluster is
                        # unavailable.
                        self._run_again(item, is_lost=False)
                    else:
                        self._retry(item, error, is_alone=len(batch.items) == 1)
                self._release(item, batch)
            self._batches.discard(batch)
            self._news.notify()
            self._batch_ended.notify()

    async def _begin(self, batch: _Batch) -> list[Work]:
        """Store that the jobs of a batch run, and return the work on each computation."""
        changes = [(live, _started(live.record)) for item in batch.items for live in item.jobs.values()]
        await self._store.update([JobChange(record) for _, record in changes])
        self.health.note_success()
        for live, record in changes:
            if not live.is_ending:
                live.change(record)
        works: list[Work] = []
        for item in batch.items:
            if item.jobs and (work := await self._work_of(item)) is not None:
                item.work, self._of_work[work.id] = work, item
                works.append(work)
        return works

    async def _work_of(self, item: _Computation) -> Work | None:
        """Return the work of a computation, with its model; None if it ends without."""
        record = next(iter(item.jobs.values())).record
        folder = self._folder if self._runner.shares_files else None
        try:
            model = self._release_model(item) or await self._read_model(record, folder)
            work = await self._make_work(record, model, folder)
        except JobsUnavailableError:
            raise
        except (KeyError, OSError) as error:
            failure = JobFailure(type(error).__name__, f"the model of the job cannot be read: {error}")
            self._end_all(item, JobState.FAILED, failure)
            return None
        except InvalidJobError as error:
            self._end_all(item, JobState.FAILED, describe_failure(error))
            return None
        if not item.jobs:  # all were cancelled meanwhile
            return None
        for live in item.jobs.values():
            if live.record.state is JobState.QUEUED:  # it has joined meanwhile
                self._start_late(live)
        item.deadline = max(live.loop_deadline for live in item.jobs.values())
        seconds = None if item.deadline == float("inf") else max(1e-3, item.deadline - anyio.current_time())
        return replace(work, seconds=seconds, has_lost_worker=item.lost > 0)

    async def _read_model(self, record: JobRecord, folder: Path | None) -> bytes | Path:
        """Return a model from the store, as a file if it is large and there is a folder."""
        if folder is None or record.model_size <= INLINE:
            return await read_blob(self._store, record.model_digest)
        path = folder / f"{record.id}.model"
        await write_blob(self._store, record.model_digest, path)
        return path

    def _on_event(self, work_id: str, kind: str, at: float, data: Mapping[str, Any]) -> None:
        item = self._of_work[work_id]
        if not item.has_result:
            for index, live in enumerate(item.jobs.values()):
                live.add_event(kind, at, data, is_shared=index > 0)

    def _on_result(self, work_id: str, result: WorkResult) -> None:
        item = self._of_work[work_id]
        item.has_result = True
        if result.memory is not None:
            self._memory.learn(item, result.memory)
        self._queue.end(item.tenant, result.seconds)
        state = JobState.DONE if result.failure is None else JobState.FAILED
        if item.jobs:
            data = result.result
            if data is None and result.failure is None and item.work is not None:
                # The model is its own result.
                data = item.work.model
            if isinstance(data, bytes) and len(data) <= SMALL:
                for live in item.jobs.values():
                    live.result = data
            is_late = result.failure is not None and result.failure.kind == BudgetExceededError.__name__
            if is_late and item.deadline is not None and item.deadline <= anyio.current_time():
                # The error of the pass knows the time that was left at its start only.
                for live in self._take_jobs(item):
                    failure = _late_failure(live, has_begun=True, error=result.failure)
                    self._endings.add(Ending([live], state, failure, result))
            else:
                self._end_all(item, state, result.failure, result)
        elif isinstance(result.result, Path):
            result.result.unlink(missing_ok=True)

    def _retry(self, item: _Computation, error: Exception | None, *, is_alone: bool) -> None:
        """Run a computation again that has no result, unless that is of no use."""
        records = [live.record for live in item.jobs.values()]
        running = next(filter(None, (live.running_pass() for live in item.jobs.values())), None)
        if isinstance(error, OutOfMemoryError) and is_alone:
            self._memory.learn(item, error.used)
        # The second attempt locates the cause, because its events are sent at once.
        is_out_of_memory = isinstance(error, OutOfMemoryError) and (running is not None or item.lost > 0)
        is_lost = error is None or (isinstance(error, WorkerLostError) and not is_out_of_memory)
        if error is not None and not is_lost and is_alone:
            # If it needed the memory alone, the next attempt would need as much.
            failure = describe_failure(error)
            pass_name, function = running or (None, None)
            if is_out_of_memory:
                failure = replace(failure, message=_reason_text(error) + _where_text(running))
            failure = replace(failure, pass_name=pass_name, function=function)
            self._end_all(item, JobState.FAILED, failure)
        elif max(record.attempts for record in records) >= self._limits.attempts:
            self._end_all(item, JobState.FAILED, lost_failure(records[0], _reason_text(error), running))
        else:
            self._run_again(item, is_lost=True)

    def _run_again(self, item: _Computation, *, is_lost: bool) -> None:
        """Queue a computation again, to run alone."""
        item.lost += is_lost
        for live in item.jobs.values():
            record = live.record
            if record.state is JobState.RUNNING:
                # An attempt that the optimizer itself has ended does not count.
                attempts = record.attempts - (not is_lost)
                live.change(replace(record, state=JobState.QUEUED, attempts=attempts))
        self._retries.append(item)

    def _release(self, item: _Computation, batch: _Batch) -> None:
        """Free what a computation occupies while it runs."""
        if not item.has_result:
            seconds = (anyio.current_time() - batch.started) / len(batch.items)
            self._queue.end(item.tenant, seconds, is_typical=False)
        self._release_model(item)
        self._memory.end(item)
        self._running[item.tenant] -= 1
        if not self._running[item.tenant]:
            del self._running[item.tenant]
        if item.work is not None:
            del self._of_work[item.work.id]
            remove_files(item.work, keep_result=item.has_result)
        item.batch, item.work, item.deadline = None, None, None

    def _end_all(
        self, item: _Computation, state: JobState, failure: JobFailure | None = None, result: WorkResult | None = None
    ) -> None:
        """End all jobs of a computation."""
        self._endings.add(Ending(self._take_jobs(item), state, failure, result))

    def _take_jobs(self, item: _Computation) -> list[LiveJob]:
        """Remove and return the jobs of a computation."""
        jobs = list(item.jobs.values())
        for live in jobs:
            del self._of_job[live.record.id]
        item.jobs.clear()
        self._forget(item)
        return jobs

    def _check_deadline(self, live: LiveJob) -> None:
        """End a job whose deadline is over."""
        item = self._of_job[live.record.id]
        now = anyio.current_time()
        if item.deadline is not None and item.deadline <= now < live.loop_deadline + LATE_SECONDS:
            # The passes have the same deadline. They know more about where they are.
            self._deadlines.add(live, live.loop_deadline + LATE_SECONDS)
            return
        self.cancel(live, JobState.FAILED, _late_failure(live, has_begun=item.deadline is not None))


def _started(record: JobRecord) -> JobRecord:
    """Return the record of a job whose next attempt begins."""
    attempts, starts = record.attempts + 1, record.starts + 1
    return replace(record, state=JobState.RUNNING, attempts=attempts, starts=starts, started=time())


def lost_failure(record: JobRecord, reason: str, running: tuple[str, str | None] | None = None) -> JobFailure:
    """Return the failure of a job whose attempts did not end.

    Parameters:
        record: the job.
        reason: why the last attempt did not end.
        running: the pass that ran, and its function.

    """
    pass_name, function = running or (None, None)
    times = "its only attempt" if record.attempts == 1 else f"each of {record.attempts} attempts"
    message = f"the job lost its worker or its server in {times}: {reason}{_where_text(running)}"
    return JobFailure(WorkerLostError.__name__, message, (), pass_name, function)


def _late_failure(live: LiveJob, *, has_begun: bool, error: JobFailure | None = None) -> JobFailure:
    """Return the failure of a job whose deadline is over.

    Parameters:
        live: the job.
        has_begun: whether an attempt has begun.
        error: how the pass has failed, if it has noticed the deadline itself.

    """
    seconds = (live.record.deadline or 0.0) - live.record.created
    message = f"the job did not end within {seconds:.4g} s, its deadline"
    if not has_begun:
        return JobFailure(BudgetExceededError.__name__, f"{message}; it was queued")
    pass_name, function = live.running_pass() or (None, None)
    if error is not None and error.pass_name is not None:
        pass_name, function = error.pass_name, error.function
    where = "no pass was running" if pass_name is None else f"{_run_text(pass_name, function)} was running"
    failure = error or JobFailure(BudgetExceededError.__name__, "")
    return replace(failure, message=f"{message}; {where}", pass_name=pass_name, function=function)


def _reason_text(error: Exception | None) -> str:
    """Return why an attempt did not end, without the label of the call in the worker."""
    text = "it returned no result" if error is None else str(error)
    return text.rpartition(" ran " if isinstance(error, OutOfMemoryError) else "lost its worker: ")[2]


def _where_text(running: tuple[str, str | None] | None) -> str:
    return "" if running is None else f"; {_run_text(*running)} was running"


def _run_text(pass_name: str, function: str | None) -> str:
    return f"pass {pass_name!r}" if function is None else f"pass {pass_name!r}, function {function!r},"
