"""The work on many files, shared by this process and worker processes.

A worker receives names of files, not models, and reads and writes the files itself.
"""

import gc
import io
import sys
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, cast

import anyio

from apass.batch.formats import format_of
from apass.cli.growth import MaxGrowth
from apass.cli.inputs import Job
from apass.cli.loading import collect_seldom
from apass.cli.optimize import JobResult, Phase, Treatment, optimize_files
from apass.concurrency.processes.pool import RECEIVED, check_not_starting, run_in_worker
from apass.core.context import PassContext
from apass.core.run import current_module_name
from apass.errors import WorkerLostError
from apass.executors.batching import batch_size
from apass.executors.messages import ContextMessage
from apass.executors.processes import ProcessExecutor
from apass.executors.remote import record_passes
from apass.executors.remote_errors import SerializedError, failure_of
from apass.executors.trail import Trail
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline
from apass.util.files import marked_parts, part_mark, remove_parts
from apass.util.printable import LAYOUT, printable

__all__ = ["FileWork", "FileWorkers", "started_workers"]

BATCH_SECONDS: Final = 0.5
"""Target duration of a batch of files. Each batch ends with a flush to the disk."""

LEAST_SECONDS: Final = 0.1
"""Minimum duration of a batch, until the last one: between two batches, a worker waits for 0.02 to 0.04 seconds."""

FIRST_BATCH: Final = 4
"""Files of the first batch, if no process has optimized a file before."""


@dataclass(frozen=True, slots=True)
class FileWork:
    """What a worker needs to know about all files."""

    formats: Mapping[str, str | None]
    """The suffix of the results, by the suffix of a file; None if it is the same."""
    passes: Mapping[str, Pass[Any]]
    """The pipelines, by the suffix of a file."""
    cache: str | None
    """The location of the store of pass results; None for no store."""
    limit: int
    """How many models may be in memory."""
    backend: str
    """The event loop."""
    max_growth: MaxGrowth | None
    """How much larger a result may be; None for no limit."""

    def treatment_of(self, job: Job) -> Treatment:
        """Return the format and the pipeline of one model."""
        pipeline = self.passes[job.suffix]
        return format_of(job.source, self.formats[job.suffix], pipeline), pipeline


@dataclass(frozen=True, slots=True)
class _Reply:
    """The outcome of a batch of files."""

    results: Sequence[tuple[JobResult, SerializedError | None]]
    """The results without their errors, and the errors."""
    seconds: float
    """The duration, without the imports."""
    output: Mapping[str | None, str]
    """What the passes printed, by the name of the model; None for what belongs to no model."""


class _Output(io.RawIOBase):
    """Standard output and standard error of a batch, separated by model."""

    def __init__(self) -> None:
        self.by_model: defaultdict[str | None, bytearray] = defaultdict(bytearray)
        """What was printed, by the name of the model."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        # The task of each model, and the threads that it uses, have the name in their context.
        self.by_model[current_module_name()] += data
        return len(data)

    def fileno(self) -> int:
        # A pass may give the stream to a child process.
        return 2


def prepare_worker(
    formats: Mapping[str, str | None],
    pipeline: str | None,
    backend: str,
    _send: Callable[[bytes], object],
) -> None:
    """Import the event loop, the formats and the passes of a pipeline, in a worker.

    Errors are ignored: the command reports them.
    """
    gc.disable()
    anyio.run(anyio.sleep, 0, backend=backend)
    passes: Pass[Any] | None = None
    with suppress(Exception):
        passes = None if pipeline is None else parse_pipeline(pipeline)
    for source, result in formats.items():
        with suppress(Exception):
            model_format = format_of(Path(f"model{source}"), result, passes)
            if pipeline is None:
                parse_pipeline(model_format.default_pipeline)
    collect_seldom()


def optimize_batch(work: FileWork, mark: str, jobs: Sequence[Job], separates: bool) -> _Reply:
    """Optimize files, in a worker.

    Parameters:
        work: how the files are optimized.
        mark: the mark of the temporary files.
        jobs: the files.
        separates: whether to return what the passes print by model; otherwise it is printed here, and at once.

    """
    if not separates:
        return anyio.run(partial(_optimize_batch, work, mark, jobs), backend=work.backend)
    output = _Output()
    stream = io.TextIOWrapper(cast("Any", output), "utf-8", "backslashreplace", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        reply = anyio.run(partial(_optimize_batch, work, mark, jobs), backend=work.backend)
    return replace(reply, output={name: data.decode(errors="replace") for name, data in output.by_model.items()})


async def _optimize_batch(work: FileWork, mark: str, jobs: Sequence[Job]) -> _Reply:
    start = perf_counter()
    results: list[JobResult] = []
    ctx = PassContext.current()
    store: Any = None
    if work.cache is not None:
        # Few runs have a cache.
        from apass.cli.cache_location import OptionalStore, store_at

        store = OptionalStore(store_at(work.cache))
        # A cached result would hide its passes from an instrument.
        trail = [one for one in ctx.instruments if isinstance(one, Trail)]
        ctx = ContextMessage.of(ctx).open(trail, ctx.diag_ctx, store)
    # The worker that had this batch before may have been lost.
    _remove_parts(jobs, mark)
    with marked_parts(mark):
        async with store or nullcontext(), ctx if store is not None else nullcontext():
            await optimize_files(
                jobs,
                work.treatment_of,
                max_growth=work.max_growth,
                limit=work.limit,
                on_phase=_ignore,
                on_result=results.append,
            )
    return _Reply([_without_error(result) for result in results], perf_counter() - start, {})


def _without_error(result: JobResult) -> tuple[JobResult, SerializedError | None]:
    # An error loses its notes when it is pickled.
    return replace(result, error=None), None if result.error is None else failure_of(result.error)


@asynccontextmanager
async def started_workers(
    count: int, formats: Mapping[str, str | None], pipeline: str | None, backend: str
) -> AsyncGenerator["FileWorkers"]:
    """Start worker processes that optimize files; the caller plans the run meanwhile.

    Parameters:
        count: the number of workers.
        formats: the suffix of the results, by the suffix of a file; None if it is the same.
        pipeline: the text of the pipeline; None for the default pipeline of each format.
        backend: the event loop of the workers.

    """
    check_not_starting()
    workers = FileWorkers(count, formats, backend)
    failure: Exception | SystemExit | None = None
    async with anyio.create_task_group() as group:
        for ready in workers.ready:
            # The process has received what to import before this process begins to import the same.
            await group.start(_start, ready, formats, pipeline, backend)
        try:
            yield workers
        except (Exception, SystemExit) as error:
            # Raised below, outside the task group, which would wrap it in an exception group.
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _start(
    ready: anyio.Event,
    formats: Mapping[str, str | None],
    pipeline: str | None,
    backend: str,
    *,
    task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Start a worker, and set `ready` when it has imported what it needs."""

    def on_message(message: bytes) -> None:
        if message == RECEIVED and not is_sent:
            is_sent.append(True)
            task_status.started()

    is_sent: list[bool] = []
    # A worker that cannot start fails again when it gets files, and is reported then.
    with suppress(Exception):
        await run_in_worker(prepare_worker, formats, pipeline, backend, on_message=on_message)
    if not is_sent:
        task_status.started()
    ready.set()


class FileWorkers:
    """Worker processes that optimize files.

    Parameters:
        count: the number of workers.
        formats: the suffix of the results, by the suffix of a file; None if it is the same.
        backend: the event loop of the workers.

    """

    def __init__(self, count: int, formats: Mapping[str, str | None], backend: str) -> None:
        self.count: Final = count
        """The number of workers."""
        self.ready: Final = [anyio.Event() for _ in range(count)]
        """Set when a worker can be used, one for each."""
        self._executor = ProcessExecutor(count)
        self._formats = formats
        self._backend = backend
        self._queue: deque[Job] = deque()
        self._seconds = 0.0
        """Duration of all batches of workers."""
        self._files = 0
        """Files in these batches, and files that this process has begun."""
        self._began: float | None = None
        """When this process began the first file."""

    async def optimize(
        self,
        jobs: Sequence[Job],
        passes: Mapping[str, Pass[Any]],
        *,
        cache: str | None,
        max_growth: MaxGrowth | None,
        limit: int,
        joins: bool,
        on_phase: Phase,
        on_result: Callable[[JobResult], None],
    ) -> None:
        """Optimize files, as `optimize_files` does.

        Parameters:
            jobs: the files.
            passes: the pipelines, by the suffix of a file.
            cache: the location of the store of pass results; None for no store.
            max_growth: how much larger a result may be; None for no limit.
            limit: how many models each process may have in memory.
            joins: whether this process optimizes files, too.
            on_phase: called at each phase of a file; workers do not report all of them.
            on_result: called at the end of each file.

        """
        work = FileWork(self._formats, passes, cache, limit, self._backend, max_growth)
        share = _Share(work, len(jobs) > 1, joins, on_phase, on_result)
        for pass_ in passes.values():
            record_passes(pass_)
        self._queue.extend(jobs)
        async with anyio.create_task_group() as group:
            for ready in self.ready:
                group.start_soon(self._drive, ready, share)
            if joins:
                await self._optimize_here(share)
        if self._queue:  # what the workers could not do
            await self._optimize_here(share)

    async def _optimize_here(self, share: "_Share") -> None:
        """Optimize files in this process, until the queue is empty."""
        self._began = perf_counter()
        await optimize_files(
            self._remaining(),
            share.work.treatment_of,
            max_growth=share.work.max_growth,
            limit=share.work.limit,
            on_phase=share.on_phase,
            on_result=share.on_result,
        )

    def _remaining(self) -> Iterator[Job]:
        while self._queue:
            self._files += 1
            yield self._queue.popleft()

    def _next_batch(self) -> list[Job]:
        """Remove the next batch of a worker from the queue."""
        size = FIRST_BATCH
        if self._files:
            seconds = self._seconds if self._began is None else self._seconds + perf_counter() - self._began
            processes = self.count + (self._began is not None)
            size = batch_size(len(self._queue), seconds / self._files, processes, BATCH_SECONDS, LEAST_SECONDS)
        return [self._queue.popleft() for _ in range(min(size, len(self._queue)))]

    async def _drive(self, ready: anyio.Event, share: "_Share") -> None:
        """Optimize batch after batch in a worker, if it can be used."""
        await ready.wait()
        while jobs := self._next_batch():
            for job in jobs:
                share.on_phase(job, "optimizing")
            try:
                self._seconds += await self._optimize_batch(jobs, share, separates=share.has_several)
            except _UnusableError as error:
                if share.joins:
                    self._queue.extend(jobs)
                    return
                share.fail(jobs, error.reason)
            else:
                self._files += len(jobs)

    async def _optimize_batch(self, jobs: Sequence[Job], share: "_Share", *, separates: bool) -> float:
        """Optimize a batch of files in a worker, and return the duration.

        If the worker is lost, each file is optimized once more separately. What the passes print until then appears at
        once, because a worker that dies returns nothing.

        Raises:
            _UnusableError: if no worker can optimize these files.

        """
        mark, start = part_mark(), perf_counter()
        try:
            reply: _Reply = await self._executor.call(optimize_batch, share.work, mark, jobs, separates)
        except WorkerLostError as error:
            _remove_parts(jobs, mark)
            if len(jobs) > 1:
                return sum([await self._optimize_batch([job], share, separates=False) for job in jobs])
            reason = str(error).partition(": ")[2]
            advice = "--reproducer DIR writes what reproduces it"
            lost = WorkerLostError(f"the passes lost two workers in succession: {reason}; {advice}")
            for note in getattr(error, "__notes__", ()):
                lost.add_note(note)
            share.fail(jobs, lost)
            return perf_counter() - start
        except Exception as error:
            raise _UnusableError(error) from error
        except BaseException:
            # The run was cancelled, and the worker killed.
            _remove_parts(jobs, mark)
            raise
        share.accept(reply)
        return reply.seconds


class _UnusableError(Exception):
    """No worker can optimize the files.

    A worker cannot start, or cannot import a pass that the program itself has registered.
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason
        """The error."""


@dataclass(frozen=True, slots=True)
class _Share:
    """What the workers of a run share in this process."""

    work: FileWork
    """How the files are optimized."""
    has_several: bool
    """Whether the run has several files."""
    joins: bool
    """Whether this process optimizes files, too."""
    on_phase: Phase
    """Called at each phase of a file."""
    on_result: Callable[[JobResult], None]
    """Called at the end of each file."""

    def accept(self, reply: _Reply) -> None:
        """Print what the passes printed, and report the results of a reply."""
        for name, text in reply.output.items():
            prefix = f"{name}: " if self.has_several and name is not None else ""
            if sys.stderr is not None:
                sys.stderr.writelines(f"{printable(prefix + line, LAYOUT)}\n" for line in text.splitlines())
        for result, failure in reply.results:
            error = None if failure is None else cast("Exception", failure.error())
            self.report(replace(result, error=error))

    def fail(self, jobs: Sequence[Job], error: Exception) -> None:
        """Report that files failed with an error."""
        for job in jobs:
            self.report(JobResult(job, None, None, 0.0, error=error))

    def report(self, result: JobResult) -> None:
        """Report the result of a file."""
        self.on_phase(result.job, "done")
        self.on_result(result)


def _remove_parts(jobs: Sequence[Job], mark: str) -> None:
    """Remove the temporary files of a worker that was killed."""
    remove_parts({job.target.parent for job in jobs}, mark)


def _ignore(_job: Job, _phase: str) -> None:
    """Ignore a phase."""
