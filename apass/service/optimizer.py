"""`Optimizer`: accepts jobs and runs them, in the event loop of an application."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast, overload

import anyio
from anyio.abc import TaskStatus
from anyio.lowlevel import current_token
from anyio.to_thread import run_sync

from apass.core.executor import Executor, ExecutorChoice, check_executor, executor_in_force, new_executor
from apass.core.store import Store
from apass.executors.remote import RemoteExecutor
from apass.passes.base import Pass
from apass.service.acceptance import Acceptance
from apass.service.admission import Admission
from apass.service.dispatcher import Dispatcher
from apass.service.errors import (
    JobsUnavailableError,
    NoResultError,
    OptimizerClosedError,
    StoreTakenError,
    UnknownJobError,
)
from apass.service.job import Job
from apass.service.job_formats import JobFormats
from apass.service.job_news import JobNews
from apass.service.job_pipelines import JobPipelines
from apass.service.job_request import JobRequest
from apass.service.job_store import JobPage, JobQuery, JobStore
from apass.service.jobs import (
    JobEvent,
    JobOptions,
    JobRecord,
    JobState,
    is_file_kind,
)
from apass.service.limits import Limits
from apass.service.live_job import LiveJob
from apass.service.memory_jobs import MemoryJobStore
from apass.service.runners import JobRunner, LocalRunner, RemoteRunner
from apass.service.scratch_folder import scratch_folder
from apass.service.work import Work
from apass.util.checks import check_methods, check_type

__all__ = ["DEFAULT_SLOTS", "JobObserver", "Optimizer", "OptimizerStatus", "job_store"]

ModT = TypeVar("ModT")
ResultT = TypeVar("ResultT")

DEFAULT_SLOTS: Final = 64
"""How many jobs run at once in the event loop by default."""

EXPIRE_SECONDS: Final = 60.0
"""Seconds between two searches for expired jobs."""

_LOGGER: Final = logging.getLogger("apass.service")


@dataclass(frozen=True, slots=True)
class OptimizerStatus:
    """What an optimizer does now."""

    accepts: bool
    """Whether it accepts jobs: it does not end, and the store could be used for the last one."""
    queued: int
    """Computations that wait."""
    running: int
    """Computations that run."""
    workers: int
    """Batches of computations that can run at once."""
    jobs: int
    """Jobs of this process that have not ended."""
    oldest: float
    """Seconds since the oldest job that waits was accepted."""
    error: str | None
    """Why the store cannot be used."""


class JobObserver(Protocol):
    """Sees the events of all jobs of an optimizer."""

    # It is a Protocol because the implementations share no code.

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        """Handle an event. It must neither block nor raise."""
        ...

    async def run(self, optimizer: "Optimizer") -> None:
        """Run while the optimizer is open.

        It is cancelled at the end, and may return before.
        """
        ...


class Optimizer:
    """Accepts models, runs pipelines on them, and keeps the results.

    Use it with `async with`, for as long as the application runs. It works in the event loop of the application, on
    asyncio and trio.

    - Jobs wait in a bounded queue. Tenants share the workers fairly.
    - Equal jobs of a tenant are computed once. A job that equals one that is done gets its result.
    - With a durable store, an accepted job survives the end of the process, and runs again if it had not ended.

    Parameters:
        pipelines: the pipelines that jobs may name, as passes or texts. An empty text is the default pipeline of the
            model's IR, and the only one by default, with the name `default`.
        allow: the passes that texts of pipelines in jobs may name, as in `parse_pipeline`; by default, jobs name one of
            `pipelines`.
        limits: the limits.
        store: where jobs are kept: a `JobStore`, the path of a SQLite file, or the URL of a database, such as
            `postgresql://...`. None keeps them in memory.
        cache: keeps the results of passes and analyses for all jobs of all tenants.
        executor: where jobs run: in the event loop (None), or in the workers of a `ProcessExecutor`, of `"process"`, or
            of a `DaskExecutor` or `"dask://HOST:PORT"`. Another executor runs the plain bodies of passes only. If a
            pipeline cannot be sent to a worker, entering the optimizer raises an ExecutorError.
        reuse: whether a job may get the result of an equal job that is done. That of another process is used only if
            all passes are cacheable.
        observers: objects that see all events of jobs, such as `ServiceMetrics`.
        standby: whether to wait if another process uses the store; otherwise that is a StoreTakenError. Entering the
            optimizer does not wait: it accepts no jobs until it has the store. `wait_active` waits for that.

    >>> import apass
    >>> async def main():
    ...     double = apass.function_pass(lambda func, mod, ctx: 2 * func, opt_level=0, name="Double")
    ...     async with Optimizer({"double": double}) as optimizer:
    ...         job = await optimizer.submit({"f": 1}, pipeline="double", deadline=30)
    ...         return await job.result()
    >>> anyio.run(main)
    {'f': 2}

    """

    def __init__(
        self,
        pipelines: Mapping[str, Pass[Any] | str] | None = None,
        *,
        allow: Iterable[str] = (),
        limits: Limits | None = None,
        store: JobStore | Path | str | None = None,
        cache: Store | None = None,
        executor: ExecutorChoice = None,
        reuse: bool = True,
        observers: Sequence[JobObserver] = (),
        standby: bool = False,
    ) -> None:
        check_type("standby", standby, bool)
        check_type("limits", limits, Limits | None)
        check_type("cache", cache, Store | None)
        check_type("reuse", reuse, bool)
        check_type("observers", observers, Sequence)
        for observer in observers:
            check_methods("observer", observer, "a JobObserver", "on_event", "run")
        self.limits: Final = limits or Limits()
        """The limits."""
        named = {"default": ""} if pipelines is None else pipelines
        self.pipelines: Final = JobPipelines(named, allow, self.limits.pipeline_length)
        """The pipelines that jobs may name."""
        self.store: Final = job_store(store)
        """Where jobs are kept."""
        self.reuse: Final = reuse
        """Whether a job may get the result of an equal one."""
        self.observers: Final = tuple(observers)
        """The objects that see all events of jobs."""
        self.formats: JobFormats = JobFormats(is_local=True, allow=self.pipelines.allow)
        """The formats of models and results, while the optimizer is open."""
        self.failure: JobsUnavailableError | None = None
        """Why the optimizer has ended by itself: another process has taken the store over, or it cannot be opened."""
        self._standby = standby
        self._cache = cache
        self._executor: ExecutorChoice = check_executor("Optimizer", executor)
        self._is_open = False
        self._loop: object = None
        """The event loop in which it is open."""
        self._listeners: set[JobNews] = set()
        self._acceptance = Acceptance(self.store, self.limits, self._observe, reuse=reuse)

    async def __aenter__(self) -> Self:
        if self._is_open:
            raise OptimizerClosedError("the optimizer is open; create another one, or share this one in its block")
        async with AsyncExitStack() as stack:
            scratch = scratch_folder()
            folder = await run_sync(scratch.__enter__)
            stack.push(scratch)
            await self.pipelines.load()
            runner = await self._runner(stack)
            await runner.check(self.pipelines.loaded())
            unfinished = await self._open_store()
            stack.push_async_callback(self._close_store)
            self._open(folder, runner)
            group = await stack.enter_async_context(anyio.create_task_group())
            # A cancellation of the block must not reach the tasks, so that jobs can still end.
            scope = anyio.CancelScope(shield=True)
            stack.callback(scope.cancel)
            await group.start(self._run, scope, unfinished)
            self._stack = stack.pop_all()
        self._is_open, self._loop = True, current_token().native_token
        return self

    async def _open_store(self) -> Sequence[JobRecord] | None:
        """Return the unfinished jobs.

        None means that this is a standby, and another process uses the store.
        """
        try:
            return await self.store.open()
        except StoreTakenError:
            if not self._standby:
                raise
            return None

    async def _run(
        self, scope: anyio.CancelScope, unfinished: Sequence[JobRecord] | None, *, task_status: TaskStatus[None]
    ) -> None:
        """Run the tasks of the optimizer until a scope is cancelled."""
        with scope:
            async with anyio.create_task_group() as group:
                self._group = group
                for observer in self.observers:
                    group.start_soon(self._run_observer, observer, name=f"apass {type(observer).__name__}")
                if unfinished is None:
                    task_status.started()
                    group.start_soon(self._wait_for_store, name="apass wait for store")
                else:
                    self._begin_work(unfinished)
                    task_status.started()

    async def _wait_for_store(self) -> None:
        """Wait for the store, and begin to work."""
        try:
            unfinished = await self.store.open(wait=True)
        except JobsUnavailableError as error:
            self._fail(error)
        else:
            self._begin_work(unfinished)

    def _begin_work(self, unfinished: Sequence[JobRecord]) -> None:
        """Run the jobs that the store has, and accept others."""
        self._dispatcher.start(self._group)
        self._acceptance.start(self._group, self._dispatcher, self._admission)
        for record in unfinished:
            self._acceptance.resume(record)
        self._group.start_soon(self._expire_repeatedly, name="apass expire jobs")
        self._group.start_soon(self._end_without_store, name="apass watch server")
        self._active.set()

    async def _end_without_store(self) -> None:
        """End when another process has taken the store over."""
        health = self._dispatcher.health
        await health.is_taken.wait()
        assert health.error is not None, "it is the reason"
        self._fail(health.error)

    def _fail(self, error: JobsUnavailableError) -> None:
        """End without the store. Jobs that have not ended do not end in this process."""
        self.failure = error
        self._admission.close()
        self._dispatcher.stop()
        self._close()

    def _open(self, folder: Path, runner: JobRunner) -> None:
        self._active, self._drained, self._drain_lock = anyio.Event(), anyio.Event(), anyio.Lock()
        self.failure = None
        admission = Admission(self.limits, lambda: dispatcher.queued, lambda tenant: dispatcher.waiting(tenant))
        self.formats = JobFormats(is_local=runner.shares_files, allow=self.pipelines.allow)
        dispatcher = Dispatcher(
            self.store, runner, self.limits, self._make_work, folder, self._acceptance.settle, admission.admit
        )
        self._admission, self._dispatcher, self._folder = admission, dispatcher, folder

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self.drain()
        finally:
            # A native cancellation of asyncio ends the drain early.
            self._close()
            self._is_open = False
            # The tasks raise no errors, so the group must not wrap an error of the block in an exception group.
            await self._stack.aclose()

    @overload
    async def submit(
        self,
        model: bytes | bytearray | memoryview | Path,
        *,
        kind: str | None = ...,
        result_kind: str | None = ...,
        pipeline: str = ...,
        name: str = ...,
        tenant: str = ...,
        priority: int = ...,
        deadline: float | None = ...,
        options: JobOptions | None = ...,
        idempotency_key: str | None = ...,
        wait: bool = ...,
        trace: str | None = ...,
    ) -> Job[bytes]: ...
    @overload
    async def submit(
        self,
        model: ModT,
        *,
        kind: str | None = ...,
        result_kind: str | None = ...,
        pipeline: str = ...,
        name: str = ...,
        tenant: str = ...,
        priority: int = ...,
        deadline: float | None = ...,
        options: JobOptions | None = ...,
        idempotency_key: str | None = ...,
        wait: bool = ...,
        trace: str | None = ...,
    ) -> Job[ModT]: ...
    async def submit(
        self,
        model: Any,
        *,
        kind: str | None = None,
        result_kind: str | None = None,
        pipeline: str = "default",
        name: str = "",
        tenant: str = "",
        priority: int = 0,
        deadline: float | None = None,
        options: JobOptions | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        trace: str | None = None,
    ) -> Job[Any]:
        """Accept a job.

        With a durable store, it survives the end of the process from then on.

        Parameters:
            model: a module, the bytes of a model's file, or its `Path`. The result is of the same form: a module,
                or bytes.
            kind: the suffix of the file that bytes come from, such as `.onnx`; by default that of a path.
            result_kind: the suffix of the result's file; the same as `kind` by default.
            pipeline: the name of a pipeline, or its text if `allow` permits it.
            name: a label for messages and lists.
            tenant: the user or program that the job belongs to.
            priority: jobs of the same tenant with a greater priority run first.
            deadline: seconds from now until the job must end, including the time in the queue.
            options: further options.
            idempotency_key: a name for the request. If the tenant has used it before, return that job.
            wait: whether to wait for room in the queue; otherwise a full queue is an error.
            trace: the `traceparent` of the request.

        Raises:
            InvalidJobError: if the pipeline, the kind or an option is unknown or not allowed.
            ModelTooLargeError: if the model exceeds `limits.model_bytes`.
            QueueFullError: if a limit is reached, and `wait` is false.
            IdempotencyError: if the tenant has used the key for another job.
            OptimizerClosedError: if the optimizer is not open, or ends.
            JobsUnavailableError: if the store cannot be used. The job may have been stored: repeat the request with the
                same idempotency key.

        """
        self.check_open()
        request = JobRequest(
            # `isinstance` would narrow the type to a view of unknown elements.
            bytes(model) if issubclass(type(model), bytearray | memoryview) else model,
            kind,
            result_kind,
            pipeline,
            name,
            tenant,
            priority,
            deadline,
            JobOptions() if options is None else options,
            idempotency_key,
            wait,
            trace,
        )
        request.check(self.limits)
        seconds = request.seconds(self.limits)
        await self._admission.take_rate(tenant, wait=wait)
        kind, result_kind, blob = await request.read(self.limits)
        await self.pipelines.check_options(pipeline, kind, result_kind, request.options)
        key = await self.pipelines.key(pipeline, kind, result_kind)
        if request.is_file:
            await self.formats.check(pipeline, (await self.pipelines.find(pipeline)).pass_, kind, result_kind)
        await self._admission.enter(tenant, wait=wait)
        record = request.record(kind, result_kind, blob, key, seconds)
        live, record = await self._acceptance.accept(record, blob, seconds)
        return self._job(record, live, is_module=not request.is_file)

    async def find(self, job_id: str, *, tenant: str | None = None) -> Job[Any]:
        """Return a job by its id.

        Parameters:
            job_id: the id.
            tenant: its owner; None for any.

        Raises:
            UnknownJobError: if the tenant has no such job.

        """
        self._check_loop()
        check_type("job_id", job_id, str)
        live = self._acceptance.live.get(job_id)
        record = await self.store.find(job_id) if live is None else live.record
        if record is None or tenant not in (None, record.tenant):
            raise UnknownJobError(f"there is no job {job_id!r}; it may have expired")
        if live is None:
            live, record = await self._acceptance.current(record)
        return self._job(record, live, is_module=not is_file_kind(record.kind))

    def _job(self, record: JobRecord, live: LiveJob | None, *, is_module: bool) -> Job[Any]:
        return Job(record, live, self.store, self._cancel, self._check_loop, is_module=is_module)

    async def list(self, query: JobQuery) -> JobPage:
        """Return a page of jobs, the latest first."""
        self._check_loop()
        check_type("query", query, JobQuery)
        page = await self.store.list(query)
        # The records of running jobs are stored before each attempt only.
        live = self._acceptance.live
        jobs = [live[job.id].record if job.id in live else job for job in page.jobs]
        return JobPage(jobs, page.next)

    async def remove(self, job_id: str, *, tenant: str | None = None) -> None:
        """Remove a job that has ended, with its model and result.

        Raises:
            UnknownJobError: if the tenant has no such job.
            NoResultError: if the job has not ended.

        """
        job = await self.find(job_id, tenant=tenant)
        if not await self.store.remove(job.id) and not job.record.ended:
            raise NoResultError(f"job {job_id!r} has not ended; cancel it first")

    def listen(self, kinds: Collection[str] = ("state",), *, tenant: str | None = None) -> JobNews:
        """Return the events of all jobs of this process from now on.

        Use it with `with` and `async for`. It ends when the optimizer has drained.

        Of equal jobs that are computed once, only one has events about passes.

        Parameters:
            kinds: the kinds of events; see `JobEvent`.
            tenant: the owner of the jobs; None for any.

        >>> async def show_states(optimizer: Optimizer) -> None:
        ...     with optimizer.listen() as news:
        ...         async for job, event in news:
        ...             print(job.name, event.data["state"])

        """
        if isinstance(kinds, str):
            raise TypeError(f"kinds must be a list of kinds of events, got {kinds!r}; write [{kinds!r}]")
        news = JobNews(self._listeners, frozenset(kinds), tenant)
        if self._is_open and self._drained.is_set():
            news.end()
        return news

    def check_open(self) -> None:
        """Raise OptimizerClosedError unless the optimizer accepts jobs."""
        if not self._is_open:
            raise OptimizerClosedError("the optimizer is not open; use it within `async with Optimizer(...)`")
        self._check_loop()
        if self._dispatcher.is_draining:
            reason = "" if self.failure is None else f": {self.failure}"
            raise OptimizerClosedError(f"the optimizer ends, and accepts no jobs{reason}")

    def _check_loop(self) -> None:
        """Raise OptimizerClosedError in a standby, or in another event loop.

        The tasks of the optimizer could not wake a task there.
        """
        self.check_active()
        if self._is_open and current_token().native_token is not self._loop:
            raise OptimizerClosedError(
                "the optimizer is open in another event loop; use it and its jobs in that loop, from a thread with "
                "`anyio.from_thread.run`, or open another optimizer in this loop"
            )

    def check_active(self) -> None:
        """Raise OptimizerClosedError if another process uses the store."""
        if self.is_standby:
            raise OptimizerClosedError("the optimizer is a standby: another process uses the store of the jobs")

    @property
    def is_standby(self) -> bool:
        """Whether the optimizer waits for the store, which another process uses."""
        return self._is_open and not self._active.is_set() and not self.is_draining

    async def wait_active(self) -> None:
        """Wait until the optimizer has the store, and accepts jobs."""
        await self._active.wait()

    @property
    def is_open(self) -> bool:
        """Whether the optimizer has been entered, and has not ended."""
        return self._is_open

    @property
    def is_draining(self) -> bool:
        """Whether the optimizer ends, and accepts no further jobs."""
        return self._is_open and self._dispatcher.is_draining

    @property
    def folder(self) -> Path:
        """The folder for temporary files, while the optimizer is open."""
        return self._folder

    async def wait_drained(self) -> None:
        """Wait until `drain` is over.

        Jobs that have not ended by then do not end in this process.
        """
        if self._is_open:
            await self._drained.wait()

    def status(self) -> OptimizerStatus:
        """Return what the optimizer does now."""
        if not self._is_open:
            return OptimizerStatus(False, 0, 0, 0, 0, 0.0, None)
        dispatcher = self._dispatcher
        jobs = self._acceptance.live
        waiting = [live.record.created for live in jobs.values() if live.record.state is JobState.QUEUED]
        error = dispatcher.health.error
        return OptimizerStatus(
            not (self.is_standby or dispatcher.is_draining or self._acceptance.refuses or error is not None),
            dispatcher.queued,
            dispatcher.running,
            dispatcher.slots,
            len(jobs),
            max(0.0, time() - min(waiting)) if waiting else 0.0,
            None if error is None else str(error),
        )

    async def drain(self) -> None:
        """Accept no further jobs, and wait for those that run; see `Limits.drain`.

        Several callers wait for the same drain.
        """
        if not self._is_open:
            return
        self._dispatcher.is_draining = True
        self._admission.close()
        async with self._drain_lock:
            if not self._drained.is_set():
                until = anyio.current_time() + self.limits.drain
                with anyio.move_on_at(until):
                    await self._admission.wait_stored()
                await self._dispatcher.drain(until, self.limits.drain)
                self._close()

    def _close(self) -> None:
        """Let no task wait for jobs that do not end in this process."""
        self._acceptance.close()
        for listener in self._listeners:
            listener.end()
        self._drained.set()

    async def _runner(self, stack: AsyncExitStack) -> JobRunner:
        if isinstance(self._executor, str) and self._executor.startswith("dask"):
            # Others that name the cluster must not lose their work at the end of this one.
            executor: Executor | None = new_executor(self._executor)
            await stack.enter_async_context(cast("AbstractAsyncContextManager[object]", executor))
        else:
            executor = executor_in_force(self._executor)
        if isinstance(executor, RemoteExecutor):
            return RemoteRunner(executor, self._cache, self.limits.running)
        return LocalRunner(self.limits.running or DEFAULT_SLOTS, self._cache, executor)

    async def _make_work(self, record: JobRecord, model: bytes | Path, folder: Path | None) -> Work:
        """Return the work of a job.

        Raises:
            InvalidJobError: if an earlier process has accepted the job, and this one does not know its pipeline.

        """
        pipeline = (await self.pipelines.find(record.pipeline)).pass_
        return Work(
            record.id, record.name, record.kind, record.result_kind, model, pipeline, record.options, None, folder
        )

    def _observe(self, record: JobRecord, event: JobEvent) -> None:
        for observer in self.observers:
            try:
                observer.on_event(record, event)
            except Exception:
                # An observer must not end the jobs of others.
                _LOGGER.exception("the observer %r has raised an error", observer)
        for listener in self._listeners:
            listener.add(record, event)

    async def _run_observer(self, observer: JobObserver) -> None:
        try:
            await observer.run(self)
        except Exception:
            _LOGGER.exception("the observer %r has raised an error", observer)

    async def _expire_repeatedly(self) -> None:
        while True:
            await anyio.sleep(EXPIRE_SECONDS)
            try:
                await self.store.expire(self.limits.max_age, self.limits.stored_bytes)
            except JobsUnavailableError:
                continue  # the next time

    async def _close_store(self) -> None:
        # There is no work left that its error could concern.
        with anyio.CancelScope(shield=True), suppress(JobsUnavailableError):
            await self.store.close()

    async def _cancel(self, job: Job[Any]) -> None:
        live = self._acceptance.live.get(job.id)
        if live is not None:
            self._dispatcher.cancel(live)
            await live.ended.wait()


def job_store(choice: JobStore | Path | str | None) -> JobStore:
    """Return the store that a path or a URL names, or a new one in memory.

    Raises:
        MissingExtraError: if the library of the database is not installed.

    """
    if choice is None:
        return MemoryJobStore()
    if not isinstance(choice, str | Path):
        check_methods("store", choice, "a path, a URL or a JobStore", "add", "find_done")
        return choice
    # A store in memory does not need SQLAlchemy.
    from apass.service.sql_jobs import SqlJobStore

    return SqlJobStore(choice)
