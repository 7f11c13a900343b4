"""`Optimizer`: accepts jobs and runs them, in the event loop of an application."""

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar, cast, overload

import anyio
from anyio.abc import TaskStatus
from anyio.lowlevel import current_token
from anyio.to_thread import run_sync

from apass.batch.formats import suffixes
from apass.concurrency.signal import Signal
from apass.core.adapter import adapter_by_name, adapter_for, run_in_thread_if_safe, type_name
from apass.core.context import PassContext
from apass.core.executor import Executor, ExecutorChoice, check_executor, executor_in_force, new_executor
from apass.core.ir_plugin import file_suffix
from apass.core.store import Store
from apass.errors import ApassError, did_you_mean
from apass.executors.remote import RemoteExecutor
from apass.passes.base import Pass
from apass.service.admission import Admission
from apass.service.dispatcher import Dispatcher, lost_failure
from apass.service.errors import (
    IdempotencyError,
    InvalidJobError,
    JobsUnavailableError,
    ModelTooLargeError,
    NoResultError,
    OptimizerClosedError,
    StoreTakenError,
    UnknownJobError,
)
from apass.service.job import Job
from apass.service.job_formats import JobFormats
from apass.service.job_news import JobNews
from apass.service.job_pipelines import JobPipelines
from apass.service.job_store import Blob, JobPage, JobQuery, JobStore, blob_of_file, check_blob
from apass.service.jobs import (
    JobEvent,
    JobOptions,
    JobRecord,
    JobState,
    check_deadline,
    job_key,
    new_job_id,
)
from apass.service.limits import Limits
from apass.service.live_job import LiveJob
from apass.service.memory_jobs import MemoryJobStore
from apass.service.runners import JobRunner, LocalRunner, RemoteRunner
from apass.service.scratch_folder import scratch_folder
from apass.service.work import INLINE, Work
from apass.util.checks import check_methods, check_type
from apass.util.text import shorten

__all__ = ["DEFAULT_SLOTS", "JobObserver", "Optimizer", "OptimizerStatus", "job_store"]

ModT = TypeVar("ModT")
ResultT = TypeVar("ResultT")

DEFAULT_SLOTS: Final = 64
"""How many jobs run at once in the event loop by default."""

EXPIRE_SECONDS: Final = 60.0
"""Seconds between two searches for expired jobs."""

DOUBT_SECONDS: Final = 1.0
"""Seconds between two looks for jobs that may have been stored although the store failed."""

LONGEST_NAME: Final = 300
"""Characters of names."""

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
        self._live: dict[str, LiveJob] = {}
        """The jobs of this process that have not ended, by their ids."""
        self._doubtful: dict[str, LiveJob] = {}
        """Jobs that may have been stored, although the store failed."""
        self._doubt = Signal()
        self._refuses = False
        """Whether the last job could not be stored, for example because the disk is full."""
        self._listeners: set[JobNews] = set()

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
        for record in unfinished:
            self._resume(record)
        self._group.start_soon(self._expire_repeatedly, name="apass expire jobs")
        self._group.start_soon(self._resolve_doubts, name="apass resolve doubts")
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
        dispatcher = Dispatcher(self.store, runner, self.limits, self._make_work, folder, self._settle, admission.admit)
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
        options = JobOptions() if options is None else options
        # `isinstance` would narrow the type to a view of unknown elements.
        model = bytes(model) if issubclass(type(model), bytearray | memoryview) else model
        self._check(wait, name, tenant, priority, deadline, options, idempotency_key, trace)
        seconds = self._seconds(deadline)
        await self._admission.take_rate(tenant, wait=wait)
        kind, result_kind, blob = await self._blob_of(model, kind, result_kind)
        await self.pipelines.check_options(pipeline, kind, result_kind, options)
        key = await self.pipelines.key(pipeline, kind, result_kind)
        if isinstance(model, bytes | Path):
            await self.formats.check(pipeline, (await self.pipelines.find(pipeline)).pass_, kind, result_kind)
        await self._admission.enter(tenant, wait=wait)
        now, loop_now = time(), anyio.current_time()
        record = JobRecord(
            id=new_job_id(),
            tenant=tenant,
            name=name or (_file_name(model) if isinstance(model, Path) else "model"),
            kind=kind,
            result_kind=result_kind,
            pipeline=pipeline,
            options=options,
            priority=priority,
            deadline=None if seconds is None else now + seconds,
            key=job_key(bytes.fromhex(blob.digest), key, options.as_json()),
            model_digest=blob.digest,
            model_size=blob.size,
            created=now,
            idempotency_key=idempotency_key,
            trace=trace,
        )
        live = LiveJob(record, self.limits.events, self._observe)
        if seconds is not None:
            live.loop_deadline = loop_now + seconds
        accepted: list[tuple[LiveJob | None, JobRecord] | Exception] = []
        decided = anyio.Event()

        async def accept() -> None:
            try:
                accepted.append(await self._accept(live, blob))
                self._refuses = False
            except Exception as error:
                # Jobs that are accepted run, though the disk has no room for another one.
                if isinstance(error, JobsUnavailableError) and not error.is_full:
                    self._dispatcher.health.note_failure(error)
                accepted.append(error)
                self._refuses = isinstance(error, JobsUnavailableError)
            finally:
                self._admission.leave(tenant)
                decided.set()

        # The job may be stored already when the caller is cancelled, so that it has to run.
        self._group.start_soon(accept, name="apass accept job")
        await decided.wait()
        if not accepted:
            raise OptimizerClosedError("the optimizer has ended while the job was stored")
        if isinstance(accepted[0], Exception):
            raise accepted[0]
        job, record = accepted[0]
        return self._job(record, job, is_module=not isinstance(model, bytes | Path))

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
        live = self._live.get(job_id)
        record = await self.store.find(job_id) if live is None else live.record
        if record is None or tenant not in (None, record.tenant):
            raise UnknownJobError(f"there is no job {job_id!r}; it may have expired")
        return self._job(record, live, is_module=record.kind not in suffixes())

    def _job(self, record: JobRecord, live: LiveJob | None, *, is_module: bool) -> Job[Any]:
        return Job(record, live, self.store, self._cancel, self._check_loop, is_module=is_module)

    async def list(self, query: JobQuery) -> JobPage:
        """Return a page of jobs, the latest first."""
        self._check_loop()
        check_type("query", query, JobQuery)
        page = await self.store.list(query)
        # The records of running jobs are stored before each attempt only.
        jobs = [self._live[job.id].record if job.id in self._live else job for job in page.jobs]
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

    def make_context(self, options: JobOptions) -> PassContext:
        """Return the context of a job with these options, without what depends on the job.

        Raises:
            InvalidJobError: if a config option is unknown, invalid, or not allowed.

        """
        forbidden = sorted(set(options.config) - self.limits.config)
        if forbidden:
            known = ", ".join(sorted(self.limits.config)) or "none"
            raise InvalidJobError(f"the config option {forbidden[0]!r} is not allowed here; allowed are: {known}")
        try:
            return PassContext(options.opt_level, options.required_pass, options.disabled_pass, config=options.config)
        except (TypeError, ValueError, ApassError) as error:
            raise InvalidJobError(str(error)) from error

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
        waiting = [live.record.created for live in self._live.values() if live.record.state is JobState.QUEUED]
        error = dispatcher.health.error
        return OptimizerStatus(
            not (self.is_standby or dispatcher.is_draining or self._refuses or error is not None),
            dispatcher.queued,
            dispatcher.running,
            dispatcher.slots,
            len(self._live),
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
        for live in (*self._live.values(), *self._doubtful.values()):
            live.is_kept = True
            live.settle()
        self._live.clear()
        self._doubtful.clear()
        for listener in self._listeners:
            listener.end()
        self._drained.set()

    def _check(
        self,
        wait: bool,
        name: str,
        tenant: str,
        priority: int,
        deadline: float | None,
        options: JobOptions,
        idempotency_key: str | None,
        trace: str | None,
    ) -> None:
        """Check the values of a request.

        Raises:
            InvalidJobError: if one is invalid.

        """
        try:
            check_type("options", options, JobOptions)
            check_type("wait", wait, bool)
            check_deadline(deadline)
            if not isinstance(priority, int) or isinstance(priority, bool) or abs(priority) > 1000:
                raise ValueError(f"priority must be an int between -1000 and 1000, got {priority!r}")
            _check_text("name", name)
            _check_text("tenant", tenant)
            _check_text("idempotency_key", "" if idempotency_key is None else idempotency_key)
            _check_text("trace", "" if trace is None else trace)
            if options.config:
                json.dumps(options.as_json())
        except (TypeError, ValueError) as error:
            raise InvalidJobError(str(error)) from error
        if options.config or options.required_pass or options.disabled_pass:
            self.make_context(options)

    def _seconds(self, deadline: float | None) -> float | None:
        """Return the deadline of a job in seconds."""
        longest = self.limits.max_deadline
        seconds = self.limits.deadline if deadline is None else deadline
        if longest is not None and (seconds is None or seconds > longest):
            if deadline is not None:
                raise InvalidJobError(f"deadline must be at most {longest:g} s here, got {deadline:g} s")
            return longest
        return None if seconds == float("inf") else seconds

    async def _blob_of(self, model: Any, kind: str | None, result_kind: str | None) -> tuple[str, str, Blob]:
        """Return the kinds and the bytes of a model.

        Raises:
            InvalidJobError: if the kind is unknown, or the module cannot be serialized.
            ModelTooLargeError: if the model exceeds the limit.

        """
        try:
            check_type("kind", kind, str | None)
            check_type("result_kind", result_kind, str | None)
        except TypeError as error:
            raise InvalidJobError(str(error)) from error
        if isinstance(model, bytes | Path):
            kind = (file_suffix(model) if isinstance(model, Path) else "") if kind is None else kind.lower()
            result_kind = kind if result_kind is None else result_kind.lower()
            known = suffixes()
            for suffix in (kind, result_kind):
                if suffix not in known:
                    near = did_you_mean(suffix, known) or f"; known are {', '.join(known)}"
                    raise InvalidJobError(f"there is no format of models for the suffix {suffix!r}{near}")
            await self._check_size(model)
            if isinstance(model, Path):
                try:
                    if (await anyio.Path(model).stat()).st_size > INLINE:
                        return kind, result_kind, await blob_of_file(model)
                    model = await anyio.Path(model).read_bytes()
                except OSError as error:
                    raise InvalidJobError(f"cannot read {str(model)!r}: {error}") from error
            large = len(model) > INLINE
            return kind, result_kind, await run_sync(Blob.of, model) if large else Blob.of(model)
        if isinstance(model, str):
            raise InvalidJobError(
                f"model must be a module, bytes or a path, got the text {shorten(model)!r}; "
                f"write Path(...) for the name of a file, and encode the text of a model"
            )
        if kind is not None or result_kind is not None:
            raise InvalidJobError(
                f"kind and result_kind are those of bytes and paths; a module has its own, got {type_name(model)}"
            )
        try:
            adapter = adapter_for(model)
            data = await run_in_thread_if_safe(adapter, model, partial(adapter.dumps, model))
        except ApassError as error:
            hint = "submit the bytes of a model's file with kind='.suffix', or its path, or a module of a known type"
            raise InvalidJobError(f"an object of {type_name(model)} cannot be a job; {hint}; {error}") from error
        if adapter_by_name(type_name(model)) is None:
            raise InvalidJobError(f"the class {type_name(model)} of the module cannot be found by its name")
        await self._check_size(data)
        return type_name(model), type_name(model), Blob.of(data)

    async def _check_size(self, model: bytes | Path) -> None:
        most = self.limits.model_bytes
        if most is None:
            return
        try:
            size = len(model) if isinstance(model, bytes) else (await anyio.Path(model).stat()).st_size
        except OSError as error:
            raise InvalidJobError(f"cannot read {str(model)!r}: {error}") from error
        if size > most:
            raise ModelTooLargeError(f"the model has {size:,} bytes; the limit is {most:,}")

    async def _accept(self, live: LiveJob, blob: Blob) -> tuple[LiveJob | None, JobRecord]:
        """Store a job, and queue it unless it is done already."""
        record = live.record
        if record.idempotency_key is not None:
            # Not only `add` looks for it: the earlier job may not be stored yet.
            earlier = await self.store.find_idempotent(record.tenant, record.idempotency_key)
            if earlier is not None:
                return self._same_request(earlier, record)
        equal = await self.store.find_done(record.tenant, record.key) if self.reuse else None
        # An index of the store may be damaged.
        if equal is not None and (equal.tenant, equal.key) == (record.tenant, record.key):
            reused = replace(
                record,
                state=JobState.DONE,
                finished=time(),
                result_kind=equal.result_kind,
                result_digest=equal.result_digest,
                result_size=equal.result_size,
                report_digest=equal.report_digest,
                summary=equal.summary,
                reused=True,
            )
            with suppress(KeyError):  # the result has expired meanwhile, or is damaged
                for digest in (equal.result_digest, equal.report_digest):
                    if digest is not None:
                        await check_blob(self.store, digest)
                stored = await self.store.add(reused, blob)
                if stored.id != record.id:
                    return self._same_request(stored, record)
                live.announce()
                live.change(stored)
                return None, stored
        # Another request with the same key may find it in the store before `add` returns.
        self._live[record.id] = live
        try:
            stored = await self.store.add(record, blob)
        except BaseException as error:
            del self._live[record.id]
            if isinstance(error, JobsUnavailableError):
                self._doubtful[record.id] = live
                self._doubt.notify()
            raise
        if stored.id != record.id:
            del self._live[record.id]
            return self._same_request(stored, record)
        self._begin(live, blob.data if isinstance(blob.data, bytes) else None)
        return live, record

    def _same_request(self, earlier: JobRecord, record: JobRecord) -> tuple[LiveJob | None, JobRecord]:
        """Return an earlier job with the same idempotency key."""
        if _request_key(earlier) != _request_key(record):
            raise IdempotencyError(
                f"the idempotency key {record.idempotency_key!r} was used for another job; use a new key"
            )
        doubtful = self._doubtful.pop(earlier.id, None)
        if doubtful is not None:
            self._begin(doubtful)
        return self._live.get(earlier.id), earlier

    def _resume(self, record: JobRecord) -> None:
        """Run a job that an earlier process has left."""
        live = LiveJob(record, self.limits.events, self._observe)
        if record.deadline is not None:
            live.loop_deadline = anyio.current_time() + record.deadline - time()
        self._begin(live)

    def _begin(self, live: LiveJob, model: bytes | None = None) -> None:
        """Queue a job that is stored."""
        record = live.record
        self._live[record.id] = live
        live.announce()
        if record.attempts >= self.limits.attempts:
            self._dispatcher.cancel(live, JobState.FAILED, lost_failure(record, "the server was stopped"))
        else:
            self._dispatcher.add(live, model)
        if self._drained.is_set():
            self._close()

    async def _resolve_doubts(self) -> None:
        """Run the jobs that were stored although the store has failed."""
        while True:
            while self._doubtful:
                await anyio.sleep(DOUBT_SECONDS)
                for job_id in tuple(self._doubtful):
                    try:
                        record = await self.store.find(job_id)
                    except JobsUnavailableError:
                        break
                    live = self._doubtful.pop(job_id, None)
                    if live is not None and record is not None:
                        self._begin(live)
            await self._doubt.wait()

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

    def _settle(self, live: LiveJob) -> None:
        """Wake the tasks that wait for the end of a job."""
        if self._live.get(live.record.id) is live:
            del self._live[live.record.id]
        live.settle()

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
        live = self._live.get(job.id)
        if live is not None:
            self._dispatcher.cancel(live)
            await live.ended.wait()
        elif not job.record.ended and self._drained.is_set():
            raise OptimizerClosedError(f"the optimizer has ended before job {job.id} ({job.record.state})")


def _check_text(what: str, text: str) -> None:
    """Check a text that a store keeps as it is."""
    check_type(what, text, str)
    if len(text) > LONGEST_NAME:
        raise ValueError(f"{what} must have at most {LONGEST_NAME} characters, got {len(text)}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{what} must not contain a null character or a surrogate, got {text!r}")


def _file_name(path: Path) -> str:
    """Return the name of a file, which may not be valid text."""
    return path.name.encode(errors="replace").decode()[:LONGEST_NAME]


def _request_key(record: JobRecord) -> str:
    """Return what a request asks for.

    It is the same in each process, in contrast to the key of the job: the code of the passes may have changed.
    """
    # The kind of the result of a module is known at its end only.
    kinds = [record.kind, record.result_kind] if record.kind in suffixes() else [record.kind]
    return job_key(bytes.fromhex(record.model_digest), record.pipeline, kinds, record.options.as_json())


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
