"""The concurrent optimization of model files: load, run passes, verify, write."""

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeVar

import anyio
import anyio.lowlevel
from anyio.to_thread import run_sync

from apass.batch.execution import module_runner
from apass.batch.formats import ModelFormat
from apass.batch.source import ModuleSource
from apass.batch.workers import ModuleWorkers
from apass.cli.growth import MaxGrowth
from apass.cli.inputs import Job
from apass.cli.journal import FileJournal, Finished, States
from apass.cli.output_files import named
from apass.cli.verification import Verification
from apass.concurrency.thread_batches import ThreadBatches, call_all
from apass.core.context import current_scope
from apass.core.executor import Executor
from apass.core.ir_plugin import file_suffix
from apass.core.run import enter_module
from apass.core.tracebacks import hide_runner_frames
from apass.errors import ApassError, OutputsChangedError, PassCancelledError, PassExitedError
from apass.passes.base import Pass
from apass.runner.changes import CHANGES, ChangeLog
from apass.util.files import PartFile, Prepared, complete_together, completed_later, copy_whole, give_up

__all__ = [
    "JobResult",
    "NotComparedError",
    "Phase",
    "Treatment",
    "optimize_files",
]

R = TypeVar("R")

SMALL: Final = 1 << 16
"""Files up to this size in bytes are read and written in the event loop: a call in a thread takes longer."""

FILES: Final[ThreadBatches[Callable[[], Any], Any]] = ThreadBatches(call_all, threads=2, size=16)
"""Reads and writes larger files."""

MAX_FLUSHED: Final = 64
"""How many results are flushed to the disk together."""

MAX_UNFLUSHED: Final = 2 * MAX_FLUSHED
"""How many results may wait until they are flushed. Their models are not in memory any more."""

LINGER: Final = 0.02
"""Seconds to wait for further results before a flush."""

Phase = Callable[[Job, str], None]
"""Called at each phase: `"looking up"`, `"loading"`, `"optimizing"`, `"verifying"`, `"writing"`, `"done"`."""

Treatment = tuple[ModelFormat, Pass[Any]]
"""How a file is read and written, and the pipeline that runs on its model."""


class NotComparedError(ApassError):
    """The outputs were not compared, but must be, or the run was interrupted before."""


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
    remark: str = ""
    """A note on a success, such as outputs that could not be compared."""
    changed: bool = False
    """Whether this run made another model of it."""
    error: Exception | None = None
    """The reason of a failure; None for a success."""
    bytes_before: int | None = None
    """Size of the model's files; None if they could not be read."""
    bytes_after: int | None = None
    """Size of the result's files; None if the model failed."""
    changed_by: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often each pass changed the model, in the order of the first change."""
    cached: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many results of each pass came from the store of `--cache`."""
    is_earlier: bool = False
    """Whether an earlier run wrote the result, according to the journal."""
    is_unverified: bool = False
    """Whether the outputs should have been compared, but could not be."""


async def optimize_files(
    jobs: Iterable[Job],
    treatment_of: Callable[[Job], Treatment],
    *,
    executor: Executor | None = None,
    timeout: float | None = None,
    journal: FileJournal | None = None,
    limit: int,
    verification: Verification | None = None,
    max_growth: MaxGrowth | None = None,
    on_phase: Phase,
    on_result: Callable[[JobResult], None],
) -> None:
    """Optimize each of `jobs` as `treatment_of` describes, at most `limit` at a time.

    - The passes of a model have `timeout` seconds, not counting the time until an executor has room.
    - With an `executor`, the passes run in it. Files are read and written in this process.
    - Jobs that the `journal` records as finished are skipped, and each finished job is added to it.
    - A failed file does not affect the other files.
    - A result that is larger than `max_growth` allows is not written: the model is its own result.
    - A result is written to a temporary file and renamed, so an interrupted run leaves only complete files.

    `on_result` is called at the end of each file.
    """
    evaluators = anyio.CapacityLimiter(os.cpu_count() or 1)
    results = _Results(on_phase, on_result)

    async def work(_index: int, job: Job) -> Exception | None:
        model_format, pipeline = treatment_of(job)
        # Nothing else holds the model, unless its outputs are compared.
        run_pipeline = module_runner(pipeline, executor, timeout, donate=verification is None)
        run = _FileRun(job, model_format, run_pipeline, journal, verification, max_growth, evaluators, on_phase)
        error = await _error_of(run)
        # The model is not in memory any more.
        workers.release()
        if error is None and run.parts:
            await results.flush(run)
        else:
            results.report(run, error)
        return error

    scope = current_scope()
    workers = ModuleWorkers(ModuleSource(jobs), limit, scope.state.scheduler, work, scope.ctx.exit_grace)
    async with anyio.create_task_group() as group:
        workers.start(group, results.wake)
        await results.run(workers)
        # The workers wait for further files.
        group.cancel_scope.cancel()
    if workers.source_error is not None:
        raise workers.source_error


async def _error_of(run: "_FileRun") -> Exception | None:
    """Run the work on one file, and return its error or None."""
    try:
        await run.run()
    except Exception as failure:
        hide_runner_frames(failure)
        return failure
    except SystemExit as end:
        return PassExitedError.of(end)
    except anyio.get_cancelled_exc_class() as cancellation:
        # A deadline of -inf means that this task itself is cancelled. Otherwise the pass awaited something, such as a
        # future of asyncio, that was cancelled elsewhere: an error of this file only.
        if anyio.current_effective_deadline() == float("-inf"):
            give_up(run.parts)
            raise
        error = PassCancelledError("the pass awaited something that was cancelled outside the run")
        error.__cause__ = cancellation
        return error
    return None


class _Results:
    """Flushes results to the disk, many at a time, and reports the files.

    Parameters:
        on_phase: called with the phase `"done"`.
        on_result: called at the end of each file.

    """

    def __init__(self, on_phase: Phase, on_result: Callable[[JobResult], None]) -> None:
        self._on_phase = on_phase
        self._on_result = on_result
        self._unflushed: deque[_FileRun] = deque()
        self._is_closed = False
        self._reported = 0
        self._news = anyio.Event()
        """Set when `run` has something to do."""
        self._room = anyio.Event()
        """Set when results have been flushed."""

    def wake(self) -> None:
        """Let `run` look whether all files are reported."""
        self._news.set()

    def report(self, run: "_FileRun", error: Exception | None) -> None:
        """Report the end of a file."""
        self._reported += 1
        self._news.set()
        self._on_phase(run.job, "done")
        self._on_result(run.result(error))

    async def flush(self, run: "_FileRun") -> None:
        """Have the files of a result flushed and renamed, and then reported."""
        if self._is_closed:
            # The run was cancelled, and this task had not been resumed since.
            give_up(run.parts)
            return
        self._unflushed.append(run)
        self._news.set()
        while len(self._unflushed) > MAX_UNFLUSHED:
            await self._room.wait()

    async def run(self, workers: ModuleWorkers) -> None:
        """Return when all files of the workers are reported."""
        try:
            while not (workers.ended and workers.taken == self._reported):
                if not self._unflushed:
                    await self._news.wait()
                    self._news = anyio.Event()
                elif not workers.ended or workers.taken > self._reported + len(self._unflushed):
                    # More results may come: one flush for all of them waits for the disk once.
                    await anyio.sleep(LINGER)
                await self._complete()
        finally:
            self._is_closed = True
            for run in self._unflushed:
                give_up(run.parts)

    async def _complete(self) -> None:
        """Give files their final names, and report their results."""
        batch = list(islice(self._unflushed, MAX_FLUSHED))
        if not batch:
            return
        # A thread cannot be interrupted. What it has written is reported, even if the run is cancelled meanwhile.
        errors = await run_sync(complete_together, [run.parts for run in batch])
        for run, error in zip(batch, errors, strict=True):
            self._unflushed.popleft()
            self.report(run, error)
        self._room.set()
        self._room = anyio.Event()


class _FileRun:
    """The work on one file."""

    def __init__(
        self,
        job: Job,
        model_format: ModelFormat,
        run_pipeline: Callable[[Any], Awaitable[Any]],
        journal: FileJournal | None,
        verification: Verification | None,
        max_growth: MaxGrowth | None,
        workers: anyio.CapacityLimiter,
        on_phase: Phase,
    ) -> None:
        self.job = job
        self.run_pipeline = run_pipeline
        self.format = model_format
        self.journal = journal
        self.sources: States = {}
        self.verification = verification
        self.max_growth = max_growth
        self.workers = workers
        self.on_phase = on_phase
        self.before: int | None = None
        self.after: int | None = None
        self.remark = ""
        self.is_unverified = False
        self.changed = False
        self.parts: Sequence[PartFile] = ()
        """The files of the result, which have temporary names."""
        self.changes = ChangeLog()
        self.bytes_before: int | None = None
        self.bytes_after: int | None = None
        self.is_earlier = False
        self.start = perf_counter()
        self.is_small = True
        self.companions: Sequence[Path] | None = None
        """The additional files of the model; None before they are needed, or if the model cannot be read."""

    def result(self, error: Exception | None) -> JobResult:
        """Return the result of the file."""
        return JobResult(
            self.job,
            self.before,
            self.after if error is None else None,
            perf_counter() - self.start,
            self.remark,
            self.changed and error is None,
            error,
            self.bytes_before,
            self.bytes_after if error is None else None,
            self.changes.changed,
            self.changes.stored,
            self.is_earlier,
            self.is_unverified,
        )

    async def run(self) -> None:
        """Do everything up to the files of the result, which have temporary names."""
        enter_module(self.job.name)
        CHANGES.set(self.changes)
        self._look_at_source()
        if self.journal is not None and await self._is_finished(self.journal):
            return
        self.on_phase(self.job, "loading")
        mod = await self._call(self._load)
        self.before = self.format.size(mod)
        loaded = "" if self.verification is None else await self._call(partial(self.format.fingerprint, mod))
        self.on_phase(self.job, "optimizing")
        result = await self.run_pipeline(mod)
        self.changed, before = result is not mod, mod
        if self.verification is not None and await self._call(partial(self.format.fingerprint, mod)) != loaded:
            # A pass has changed its input in place. Only the file has the model before.
            self.changed, before = True, await self._call(self._load)
        self.after = self.format.size(result) if self.changed else self.before
        if not self.changed:
            self.remark = "unchanged"
        elif self.verification is not None:
            self.on_phase(self.job, "verifying")
            await self._verify(before, result, self.verification)
            self.remark += "" if before is mod else "; a pass changed the model in place"
        self.on_phase(self.job, "writing")
        await self._call(partial(self._write_smaller, result))

    def _look_at_source(self) -> None:
        with suppress(OSError, ApassError):  # loading reports it
            self.bytes_before = self.job.source.stat().st_size
            if self.bytes_before <= SMALL:
                self._find_companions()
                self.is_small = not self.companions
            else:
                self.is_small = False

    def _find_companions(self) -> None:
        """Find the additional files of the model, and add their sizes."""
        self.companions = self.format.companions(self.job.source)
        if self.companions and self.bytes_before is not None:
            self.bytes_before += sum(path.stat().st_size for path in self.companions)

    def _load(self) -> Any:
        mod = self.format.load(self.job.source)
        # Those of a small file are known.
        if self.companions is None:
            self._find_companions()
        return mod

    async def _call(self, function: Callable[[], R]) -> R:
        """Call a function that reads or writes files, in a thread if they are large."""
        return function() if self.is_small else await FILES.run(function)

    async def _verify(self, mod: Any, result: Any, verification: Verification) -> None:
        try:
            comparison = await self.format.compare_outputs(mod, result, self.workers, verification.inputs)
        except KeyboardInterrupt:
            # Ctrl-C also reaches the worker processes, and a worker's KeyboardInterrupt is raised here. The signal
            # receiver of the event loop cancels this task: the checkpoint lets it.
            await anyio.lowlevel.checkpoint()
            raise NotComparedError("interrupted before the outputs were compared; no result was written") from None
        if comparison.changed:
            raise OutputsChangedError(f"the result computes something else: {comparison.text}; no result was written")
        self.is_unverified = comparison.changed is None
        if self.is_unverified and verification.is_required:
            raise NotComparedError(f"{comparison.text}; no result was written, because verified outputs are required")
        self.remark = comparison.text

    async def _is_finished(self, journal: FileJournal) -> bool:
        """Return whether an earlier run wrote the result.

        If not, record the states of the sources.
        """
        self.on_phase(self.job, "looking up")
        entry = await self._call(partial(journal.look_up, self.job))
        if entry is None:
            # Before loading: a file that changes later does not match its entry, and is optimized again next time.
            self.sources = await self._call(partial(journal.states, self.job, self.format))
            return False
        finished = entry.finished
        self.before, self.after = finished.before, finished.after
        self.bytes_before, self.bytes_after = entry.bytes_before, entry.bytes_after
        self.is_earlier = True
        self.remark = f"by an earlier run, {finished.remark}" if finished.remark else "by an earlier run"
        return True

    def _write_smaller(self, result: Any) -> None:
        """Write the result, or the model if the result is too much larger."""
        self._write(result)
        before, after = self.bytes_before, self.bytes_after
        if not self.changed or self.max_growth is None or before is None or after is None:
            return
        can_be_kept = _is_same_file(self.job.source, self.job.target) or self._can_be_copied()
        if self.max_growth.allows(before, after) or not can_be_kept:
            return
        give_up(self.parts)
        self.changed, self.after, self.is_unverified = False, self.before, False
        self._write(result)
        self.remark = f"kept, the result has {after - before:,} bytes more"

    def _write(self, result: Any) -> None:
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
        # Without files, the model is its own result.
        self.bytes_after = sum(part.path.stat().st_size for part in parts) if parts else self.bytes_before
        # Set here, so that it is known if the caller is cancelled while a thread writes.
        self.parts = parts

    def _can_be_copied(self) -> bool:
        """Return whether the file of the model is all that the result needs."""
        suffix, plugin = file_suffix(self.job.target), self.format.plugin
        if self.job.suffix != suffix or not plugin.copies_unchanged or suffix == plugin.text_suffix:
            return False
        return not self.companions

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
        # First the target, which usually does not exist.
        return os.path.samestat(target.stat(), source.stat())
    except OSError:
        return False
