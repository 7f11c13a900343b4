"""Where jobs run: in this event loop (`LocalRunner`) or workers (`RemoteRunner`)."""

import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final

import anyio

from apass.batch.source import ModuleSource
from apass.batch.workers import ModuleWorkers
from apass.concurrency.backend import backend_name
from apass.concurrency.processes.memory import PeakMeter
from apass.core.context import current_scope
from apass.core.executor import SENDER, ExecutorChoice
from apass.core.store import SharedStore, Store
from apass.errors import ApassError, ExecutorError, PassCancelledError
from apass.executors.batching import batch_size
from apass.executors.pickling import dumps
from apass.executors.remote import RemoteExecutor
from apass.service.work import Work, WorkResult, run_work
from apass.util.identity_cache import IdentityCache

__all__ = ["JobRunner", "LocalRunner", "OnEvent", "OnResult", "RemoteRunner"]

OnEvent = Callable[[str, str, float, Mapping[str, Any]], None]
"""Called with the id of a job, and the kind, the time and the data of an event."""

OnResult = Callable[[str, WorkResult], None]
"""Called with the id of a job and its result."""

BATCH_SECONDS: Final = 0.05
"""Target duration of a batch of jobs. A batch occupies a worker, so that another job waits as long."""

MOST_JOBS: Final = 32
"""The largest number of jobs in a batch."""

FLUSH_SECONDS: Final = 0.05
"""Seconds for which a worker keeps events, to send many together."""


class LocalRunner:
    """Runs jobs in the event loop of the caller, one to a batch.

    Parameters:
        slots: how many jobs run at once.
        store: keeps the results of passes.
        executor: runs the plain bodies of passes.

    """

    queues: bool = False
    """Whether a further batch waits for a slot, so that a worker is never idle."""
    shares_files: bool = True
    """Whether a worker can read and write the files of this process."""

    def __init__(self, slots: int, store: Store | None, executor: ExecutorChoice) -> None:
        self.slots: int = slots
        self._store = store
        self._executor = executor

    def batch_size(self, queued: int, seconds: float) -> int:
        """Return 1."""
        return 1

    async def check(self, pipelines: Mapping[str, Any]) -> None:
        """Do nothing: every pipeline can run here."""

    async def run(self, works: Sequence[Work], on_event: OnEvent, on_result: OnResult) -> None:
        """Run jobs, and report the result of each as it finishes."""
        for work in works:
            result = await run_work(work, partial(on_event, work.id), store=self._store, executor=self._executor)
            on_result(work.id, result)


class RemoteRunner:
    """Runs jobs in the workers of an executor. Short jobs share a batch.

    Parameters:
        executor: the executor.
        store: keeps the results of passes, if other processes can use it.
        most: how many batches run at once at most; None for the number of workers.

    """

    def __init__(self, executor: RemoteExecutor, store: Store | None, most: int | None = None) -> None:
        # The workers of a cluster may be other machines.
        self.shares_files: bool = executor.ends_late_workers()
        self._executor = executor
        self._most = most
        self._store = store.for_worker() if isinstance(store, SharedStore) else None
        self._pickles: IdentityCache[bytes] = IdentityCache()

    @property
    def slots(self) -> int:
        """The number of workers, which come and go in a cluster, or the limit."""
        workers = int(self._executor.slots().total_tokens)
        return workers if self._most is None else self._most

    @property
    def queues(self) -> bool:
        """Whether no limit keeps a worker idle."""
        return self.slots >= int(self._executor.slots().total_tokens)

    def batch_size(self, queued: int, seconds: float) -> int:
        """Return how many jobs take a short time together.

        Parameters:
            queued: the jobs that wait.
            seconds: the average duration of a job.

        """
        return min(MOST_JOBS, batch_size(queued, seconds, self.slots, BATCH_SECONDS))

    async def check(self, pipelines: Mapping[str, Any]) -> None:
        """Raise ExecutorError without workers, or if a pipeline cannot be sent to one."""
        await self._executor.connect()
        for name, pipeline in pipelines.items():
            try:
                self._pickled(pipeline)
            except ApassError as error:
                raise ExecutorError(f"jobs with the pipeline {name!r} cannot run: {error}") from error

    async def run(self, works: Sequence[Work], on_event: OnEvent, on_result: OnResult) -> None:
        """Run jobs, and report the result of each as it finishes.

        Raises:
            WorkerLostError: if the worker is lost; further jobs have no result then.
            ClusterLostError: if that is not the fault of the jobs.
            ExecutorError: if the jobs cannot be sent to a worker.

        """

        def receive(data: bytes) -> None:
            entries: Sequence[_Entry] = pickle.loads(data)
            for job, entry in entries:
                if isinstance(entry, tuple):
                    on_event(job, *entry)
                else:
                    on_result(job, entry)

        # Files and sockets of the store are opened in the worker.
        call = partial(_run_in_worker, backend_name(), self._store, self._executor.delivers_messages())
        pickled = [replace(work, pipeline=self._pickled(work.pipeline)) for work in works]
        receive(await self._executor.call(call, pickled, on_message=receive, retry=False))

    def _pickled(self, pipeline: Any) -> bytes | None:
        """Return the pickle of a pipeline, made once: many jobs have the same one."""
        if pipeline is None:
            return None
        pickled = self._pickles.get(pipeline)
        if pickled is None:
            pickled = dumps(pipeline, f"pipeline {pipeline.info.name!r}")
            self._pickles.keep(pipeline, pickled)
        return pickled


JobRunner = LocalRunner | RemoteRunner
"""Where jobs run."""

_Entry = tuple[str, tuple[str, float, Mapping[str, Any]] | WorkResult]
"""The id of a job, and an event or the result. A job has a dozen events, and a tuple is unpickled the fastest."""


def _run_in_worker(
    backend: str,
    store: Callable[[], SharedStore] | None,
    sends_results: bool,
    works: Sequence[Work],
) -> bytes:
    """Run jobs in a worker, and return what was not sent before."""
    is_eager = any(work.has_lost_worker for work in works)
    with _Sender(is_eager=is_eager, sends_results=sends_results) as sender:
        try:
            anyio.run(_run_all, works, sender, store, backend=backend)
        except (KeyboardInterrupt, SystemExit) as error:
            # asyncio ends the event loop when a task raises one of them, which the server must not raise again. The
            # pass has usually failed with it. Jobs without a result run again, alone.
            if not sender.results:
                message = f"a task of a pass raised {error!r}, which ends the event loop; raise an Exception instead"
                raise PassCancelledError(message) from None
    return sender.rest()


async def _run_all(works: Sequence[Work], sender: "_Sender", make_store: Callable[[], SharedStore] | None) -> None:
    """Run jobs one after the other; while one waits, the next one runs."""
    start, left, finished = monotonic(), len(works), anyio.Event()

    async def run(_index: int, work: Work) -> Exception | None:
        nonlocal left
        # The time that the job has waited for others of the batch counts against its deadline.
        seconds = None if work.seconds is None else max(1e-3, work.seconds - (monotonic() - start))
        work = replace(work, seconds=seconds, in_worker=True)
        meter = PeakMeter()
        result = await run_work(work, partial(sender.event, work.id), store=store)
        sender.add(work.id, replace(result, memory=meter.used() or None))
        left -= 1
        if not left:
            finished.set()
        # A task that was cancelled by asyncio itself must not run another job.
        is_cancelled = result.failure is not None and result.failure.kind == PassCancelledError.__name__
        return PassCancelledError(result.failure.message) if is_cancelled and result.failure else None

    scope = current_scope()
    workers = ModuleWorkers(ModuleSource(works), None, scope.state.scheduler, run, scope.ctx.exit_grace)
    async with nullcontext() if make_store is None else make_store() as store, anyio.create_task_group() as group:
        workers.start(group, lambda: None)
        await finished.wait()
        group.cancel_scope.cancel()


class _Sender:
    """Sends events and results to the server, many at a time.

    A thread sends them while a pass occupies the event loop.

    Parameters:
        is_eager: whether to send each event at once.
        sends_results: whether to send results, too. If messages may be lost, they are returned at the end.

    """

    def __init__(self, *, is_eager: bool, sends_results: bool) -> None:
        self.results: int = 0
        """The number of results that were added."""
        self._is_eager = is_eager
        self._sends_results = sends_results
        self._kept: list[_Entry] = []
        self._entries: list[_Entry] = []
        self._lock = threading.Lock()
        # A thread has other contextvars.
        self._send = SENDER.get()
        self._ended = threading.Event()
        self._has_entries = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "_Sender":
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._has_entries.set()
        if self._thread is not None:
            self._thread.join()

    def event(self, job: str, kind: str, at: float, data: Mapping[str, Any]) -> None:
        """Send an event soon."""
        self.add(job, (kind, at, data))

    def add(self, job: str, entry: tuple[str, float, Mapping[str, Any]] | WorkResult) -> None:
        """Send an event or a result soon."""
        with self._lock:
            is_result = isinstance(entry, WorkResult)
            self.results += is_result
            entries = self._kept if is_result and not self._sends_results else self._entries
            entries.append((job, entry))
        if self._is_eager:
            self._flush()
        elif self._thread is None and self._send is not None:
            thread = threading.Thread(target=self._run, daemon=True)
            # Without memory for its stack, entries are sent at the end.
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread
        else:
            self._has_entries.set()

    def rest(self) -> bytes:
        """Return the entries that were not sent."""
        # The events of a job come before its result.
        return pickle.dumps([*self._entries, *self._kept], pickle.HIGHEST_PROTOCOL)

    def _run(self) -> None:
        # If the server has ended, the worker ends, too.
        with suppress(BrokenPipeError):
            while not self._ended.wait(FLUSH_SECONDS):
                self._flush()
                self._has_entries.wait()
                self._has_entries.clear()

    def _flush(self) -> None:
        with self._lock:
            if self._entries and self._send is not None:
                self._send(pickle.dumps(self._entries, pickle.HIGHEST_PROTOCOL))
                self._entries = []
