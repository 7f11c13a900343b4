"""The concurrent optimization of model files: load, run passes, verify, write."""

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel

from apass.batch.execution import module_runner
from apass.cli.formats import ModelFormat
from apass.cli.inputs import Job
from apass.cli.journal import FileJournal, Finished, States
from apass.cli.output_files import named
from apass.concurrency.thread_batches import ThreadBatches, call_all
from apass.core.executor import Executor
from apass.core.run import enter_module
from apass.errors import ApassError, PassCancelledError
from apass.passes.base import Pass
from apass.util.files import PartFile, Prepared, complete_together, completed_later, copy_whole, give_up

__all__ = ["JobResult", "NotComparedError", "OutputsChangedError", "Phase", "Treatment", "optimize_files"]

R = TypeVar("R")

SMALL: Final = 1 << 16
"""Files up to this size in bytes are read and written in the event loop: a call in a thread takes longer."""

FILES: Final[ThreadBatches[Callable[[], Any], Any]] = ThreadBatches(call_all, threads=2, size=16)
"""Reads and writes larger files."""

MAX_UNFLUSHED: Final = 128
"""How many results may wait until they are flushed to the disk. Their models are not in memory any more."""

COMPLETIONS: Final[ThreadBatches[Sequence[PartFile], None]] = ThreadBatches(complete_together, size=64, linger=0.02)
"""Flushes results to the disk, and renames them."""

Phase = Callable[[Job, str], None]
"""Called at each phase: `"looking up"`, `"loading"`, `"optimizing"`, `"verifying"`, `"writing"`, `"done"`."""

Treatment = tuple[ModelFormat, Pass[Any]]
"""How a file is read and written, and the pipeline that runs on its model."""


class NotComparedError(ApassError):
    """The run was interrupted before the outputs were compared."""


class OutputsChangedError(ApassError):
    """The optimized model computes different outputs than the original model."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of one file, or its error."""

    job: Job
    """The file."""
    before: int | None
    """Nodes of the model as it was read; None if it could not be read."""
    after: int | None
    """Nodes of the result; None if the model failed."""
    seconds: float
    """Wall time from the start of loading to the end of writing."""
    remark: str
    """A note on a success, such as outputs that could not be compared."""
    changed: bool
    """Whether this run made another model of it."""
    error: Exception | None
    """The reason of a failure; None for a success."""


async def optimize_files(
    jobs: Iterable[Job],
    treatment_of: Callable[[Job], Treatment],
    *,
    executor: Executor | None = None,
    timeout: float | None = None,
    journal: FileJournal | None = None,
    limit: int,
    verify: bool,
    on_phase: Phase,
    on_result: Callable[[JobResult], None],
) -> None:
    """Optimize each of `jobs` as `treatment_of` describes, at most `limit` at a time.

    - The passes of a model have `timeout` seconds, not counting the time until an executor has room.
    - With an `executor`, the passes run in it. Files are read and written in this process.
    - Jobs that the `journal` records as finished are skipped, and each finished job is added to it.
    - A failed file does not affect the other files.
    - A result is written to a temporary file and renamed, so an interrupted run leaves only complete files.

    `on_result` is called at the end of each file.
    """
    slots, unflushed = anyio.CapacityLimiter(limit), anyio.CapacityLimiter(MAX_UNFLUSHED)
    workers = anyio.CapacityLimiter(os.cpu_count() or 1) if verify else None
    async with anyio.create_task_group() as group:
        for job in jobs:
            # Acquired before the task is started, so that waiting jobs do not need a task each.
            await slots.acquire_on_behalf_of(job)
            model_format, pipeline = treatment_of(job)
            if executor is None and timeout is None and not verify:
                # Nothing else holds the model, so passes may change it in place.
                run_pipeline: Callable[[Any], Awaitable[Any]] = partial(pipeline, donate=True)
            else:
                run_pipeline = module_runner(pipeline, executor, timeout)
            work = _FileRun(job, model_format, run_pipeline, journal, workers, on_phase)
            group.start_soon(_finish, work, slots, unflushed, on_result)


async def _finish(
    work: "_FileRun",
    slots: anyio.CapacityLimiter,
    unflushed: anyio.CapacityLimiter,
    on_result: Callable[[JobResult], None],
) -> None:
    """Run the work on one file, and report its result."""
    job = work.job
    start = perf_counter()
    error: Exception | None = None
    try:
        try:
            await work.run()
            await unflushed.acquire_on_behalf_of(job)
        finally:
            slots.release_on_behalf_of(job)
        try:
            await work.complete()
        finally:
            unflushed.release_on_behalf_of(job)
    except Exception as failure:
        error = failure
    except anyio.get_cancelled_exc_class() as cancellation:
        # A deadline of -inf means that this task itself is cancelled. Otherwise the pass awaited something, such as a
        # future of asyncio, that was cancelled elsewhere: an error of this file only.
        if anyio.current_effective_deadline() == float("-inf"):
            if work.is_written:
                on_result(work.result(perf_counter() - start, None))
            raise
        error = PassCancelledError("the pass awaited something that was cancelled outside the run")
        error.__cause__ = cancellation
    work.on_phase(job, "done")
    on_result(work.result(perf_counter() - start, error))


class _FileRun:
    """The work on one file, done in one task."""

    def __init__(
        self,
        job: Job,
        model_format: ModelFormat,
        run_pipeline: Callable[[Any], Awaitable[Any]],
        journal: FileJournal | None,
        workers: anyio.CapacityLimiter | None,
        on_phase: Phase,
    ) -> None:
        self.job = job
        self.run_pipeline = run_pipeline
        self.format = model_format
        self.journal = journal
        self.sources: States = {}
        self.workers = workers
        self.on_phase = on_phase
        self.before: int | None = None
        self.after: int | None = None
        self.remark = ""
        self.changed = False
        self.parts: Sequence[PartFile] = ()
        self.is_small = True
        self.has_companions = False

    @property
    def is_written(self) -> bool:
        """Whether the files of the result have their final names."""
        return bool(self.parts) and all(part.is_renamed for part in self.parts)

    def result(self, seconds: float, error: Exception | None) -> JobResult:
        """Return the result of the file."""
        after = None if error else self.after
        return JobResult(self.job, self.before, after, seconds, self.remark, error is None and self.changed, error)

    async def run(self) -> None:
        """Do everything up to the files of the result, which have temporary names."""
        enter_module(self.job.name)
        self._look_at_source()
        if self.journal is not None and await self._is_finished(self.journal):
            return
        self.on_phase(self.job, "loading")
        mod = await self._call(partial(self.format.load, self.job.source))
        self.before = self.format.size(mod)
        self.on_phase(self.job, "optimizing")
        result = await self.run_pipeline(mod)
        self.changed = result is not mod
        self.after = self.format.size(result) if self.changed else self.before
        if not self.changed:
            self.remark = "unchanged"
        elif self.workers is not None:
            self.on_phase(self.job, "verifying")
            await self._verify(mod, result, self.workers)
        self.on_phase(self.job, "writing")
        self.parts = await self._call(partial(self._write, result))

    async def complete(self) -> None:
        """Give the files of the result their final names."""
        if self.parts:
            try:
                await COMPLETIONS.run(self.parts)
            except BaseException:
                give_up(self.parts)
                raise

    def _look_at_source(self) -> None:
        with suppress(OSError, ApassError):  # loading reports it
            if self.job.source.stat().st_size <= SMALL:
                self.has_companions = bool(self.format.companions(self.job.source))
                self.is_small = not self.has_companions
            else:
                self.is_small = False

    async def _call(self, function: Callable[[], R]) -> R:
        """Call a function that reads or writes files, in a thread if they are large."""
        return function() if self.is_small else await FILES.run(function)

    async def _verify(self, mod: Any, result: Any, workers: anyio.CapacityLimiter) -> None:
        try:
            comparison = await self.format.compare_outputs(mod, result, workers)
        except KeyboardInterrupt:
            # Ctrl-C also reaches the worker processes, and a worker's KeyboardInterrupt is raised here. The signal
            # receiver of the event loop cancels this task: the checkpoint lets it.
            await anyio.lowlevel.checkpoint()
            raise NotComparedError("interrupted before the outputs were compared; no result was written") from None
        if comparison.changed:
            raise OutputsChangedError(f"the result computes something else: {comparison.text}; no result was written")
        self.remark = comparison.text

    async def _is_finished(self, journal: FileJournal) -> bool:
        """Return whether an earlier run wrote the result.

        If not, record the states of the sources.
        """
        self.on_phase(self.job, "looking up")
        finished = await self._call(partial(journal.look_up, self.job))
        if finished is None:
            # Before loading: a file that changes later does not match its entry, and is optimized again next time.
            self.sources = await self._call(partial(journal.states, self.job, self.format))
            return False
        self.before, self.after = finished.before, finished.after
        self.remark = finished.earlier_remark
        return True

    def _write(self, result: Any) -> Sequence[PartFile]:
        """Write the result, or copy the file of a model that did not change."""
        job = self.job
        is_in_place = _is_same_file(job.source, job.target)
        with completed_later() as parts:
            if self.changed or not (is_in_place or self._can_be_copied()):
                self._save(result)
            elif not is_in_place:
                self.remark = "unchanged, copied"
                copy_whole(job.source, job.target, self._prepared())
            elif (prepared := self._prepared()) is not None:
                prepared({job.target: job.source})
        return parts

    def _can_be_copied(self) -> bool:
        """Return whether the file of the model is all that the result needs."""
        if self.job.source.suffix != self.job.target.suffix:
            return False
        return not (self.has_companions if self.is_small else self.format.companions(self.job.source))

    def _save(self, result: Any) -> None:
        try:
            self.job.target.parent.mkdir(parents=True, exist_ok=True)
            self.format.save(result, self.job.target, self._prepared())
        except OSError as error:
            raise named(error, self.job.target) from error

    def _prepared(self) -> Prepared | None:
        """Return the callback that records the result in the journal, if there is one."""
        if self.journal is None:
            return None
        finished = Finished(before=self.before, after=self.after, remark=self.remark)
        return self.journal.prepared(self.job, self.sources, finished)


def _is_same_file(source: Path, target: Path) -> bool:
    try:
        return source.samefile(target)
    except OSError:  # most targets do not exist
        return False
