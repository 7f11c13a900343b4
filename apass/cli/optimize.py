"""Optimizing files: all of them concurrently in one event loop, each loaded, run through the pipeline and written."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import anyio
import anyio.lowlevel

from apass.batch.optimize import runner
from apass.cli.formats import ModelFormat
from apass.cli.inputs import Job
from apass.cli.journal import FileJournal, Finished, States
from apass.core.executor import Executor
from apass.core.run import enter_module
from apass.errors import ApassError, PassCancelledError
from apass.passes.base import Pass

__all__ = ["JobResult", "NotComparedError", "OutputsChangedError", "Phase", "Treatment", "optimize_files"]

Phase = Callable[[Job, str], None]
"""Told what is done to a model: `"looking up"`, `"loading"`, `"optimizing"`, `"verifying"`, `"writing"` or `"done"`."""


Treatment = tuple[ModelFormat, Pass[Any]]
"""How a file is read and written, and what is done to what is in it."""


class NotComparedError(ApassError):
    """The outputs before and after could not be compared, because the run was interrupted."""


class OutputsChangedError(ApassError):
    """The optimized model computes something else than the model it was made from."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What became of one file."""

    job: Job
    """Which."""
    before: int | None
    """Nodes of the model as it was read; None if it could not be read."""
    after: int | None
    """Nodes of the result; None if there is none."""
    seconds: float
    """Wall time from the start of loading to the end of writing."""
    remark: str
    """What else there is to say of a success, such as outputs that could not be compared."""
    error: Exception | None
    """Why there is no result; None if there is one."""


async def optimize_files(
    jobs: Iterable[Job],
    treatment_of: Callable[[Job], Treatment],
    *,
    executor: Executor | None = None,
    journal: FileJournal | None = None,
    limit: int,
    verify: bool,
    on_phase: Phase,
    on_result: Callable[[JobResult], None],
) -> None:
    """Optimize each of `jobs` as `treatment_of` says, at most `limit` at once, telling `on_result` as each is done.

    With an `executor`, passes run there, and files are read and written here. What a `journal` has as finished is not
    done again; what is finished is kept there.

    One file's failure harms no other. A result is written beside its place and renamed, so a run that is cut off leaves
    whole files only.
    """
    slots = anyio.CapacityLimiter(limit)
    workers = anyio.CapacityLimiter(os.cpu_count() or 1) if verify else None
    async with anyio.create_task_group() as group:
        for job in jobs:
            await slots.acquire_on_behalf_of(job)
            work = _Work(job, *treatment_of(job), executor, journal, workers, on_phase)
            group.start_soon(_finish, work, slots, on_result)


async def _finish(work: "_Work", slots: anyio.CapacityLimiter, on_result: Callable[[JobResult], None]) -> None:
    job = work.job
    start = perf_counter()
    error: Exception | None = None
    try:
        await work.run()
    except Exception as failure:
        error = failure
    except anyio.get_cancelled_exc_class() as stray:
        if anyio.current_effective_deadline() == float("-inf"):
            raise
        error = PassCancelledError("the pass awaited something that somebody else had cancelled")
        error.__cause__ = stray
    finally:
        slots.release_on_behalf_of(job)
    work.on_phase(job, "done")
    on_result(JobResult(job, work.before, None if error else work.after, perf_counter() - start, work.remark, error))


class _Work:
    """What is done to one file, in one task."""

    def __init__(
        self,
        job: Job,
        model_format: ModelFormat,
        pipeline: Pass[Any],
        executor: Executor | None,
        journal: FileJournal | None,
        workers: anyio.CapacityLimiter | None,
        on_phase: Phase,
    ) -> None:
        self.job = job
        self.run_pipeline = runner(pipeline, executor)
        self.format = model_format
        self.journal = journal
        self.sources: States = {}
        self.workers = workers
        self.on_phase = on_phase
        self.before: int | None = None
        self.after: int | None = None
        self.remark = ""

    async def run(self) -> None:
        enter_module(self.job.name)
        if self.journal is not None and await self._is_finished(self.journal):
            return
        self.on_phase(self.job, "loading")
        mod = await anyio.to_thread.run_sync(self.format.load, self.job.source)
        self.before = self.format.size(mod)
        self.on_phase(self.job, "optimizing")
        result = await self.run_pipeline(mod)
        self.after = self.format.size(result)
        if result is mod:
            self.remark = "unchanged"
        elif self.workers is not None:
            self.on_phase(self.job, "verifying")
            await self._verify(mod, result, self.workers)
        self.on_phase(self.job, "writing")
        await anyio.to_thread.run_sync(self._write, result)

    async def _verify(self, mod: Any, result: Any, workers: anyio.CapacityLimiter) -> None:
        try:
            comparison = await self.format.compare_outputs(mod, result, workers)
        except KeyboardInterrupt:
            # Ctrl-C reaches the worker processes too, and what one raises comes back; the loop has its own signal.
            await anyio.lowlevel.checkpoint()
            raise NotComparedError("interrupted before its outputs were compared; nothing was written") from None
        if comparison.changed:
            raise OutputsChangedError(f"it would compute something else: {comparison.text}; nothing was written")
        self.remark = comparison.text

    async def _is_finished(self, journal: FileJournal) -> bool:
        """Tell whether an earlier run wrote the result; if not, note what it is going to be made of."""
        self.on_phase(self.job, "looking up")
        found = await anyio.to_thread.run_sync(journal.look_up, self.job)
        if found is None:
            self.sources = await anyio.to_thread.run_sync(journal.states, self.job, self.format)
            return False
        self.before, self.after = found.before, found.after
        self.remark = f"by an earlier run, {found.remark}" if found.remark else "by an earlier run"
        return True

    def _write(self, result: Any) -> None:
        self.job.target.parent.mkdir(parents=True, exist_ok=True)
        prepared = None
        if self.journal is not None:
            finished = Finished(before=self.before, after=self.after, remark=self.remark)
            prepared = self.journal.prepared(self.job, self.sources, finished)
        self.format.save(result, self.job.target, prepared)
