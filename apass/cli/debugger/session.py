"""`DebugSession`: the models that a debugger runs, their passes and their results."""

from collections.abc import Sequence
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync

from apass.batch.formats import ModelFormat
from apass.cli.debugger.pass_tree import PassTree
from apass.cli.inputs import Job
from apass.cli.planning import Plan
from apass.concurrency.signal import Signal
from apass.core.context import PassContext
from apass.core.run import enter_module
from apass.instruments.pause.instrument import PauseInstrument
from apass.runner.error_policy import errors_of_passes

__all__ = ["DebugSession"]

LIMIT: Final = 16
"""Maximum number of models in memory."""


class DebugSession:
    """The run of a debugger, which lives in the event loop of its program.

    Parameters:
        plan: the models and their pipelines.
        context: the context in which they run; it has `pauses` and `tree` among its instruments.
        pauses: the instrument that pauses them.
        tree: the instrument that records their passes.
        writes: whether results are written.

    """

    def __init__(
        self, plan: Plan, context: PassContext, pauses: PauseInstrument, tree: PassTree, *, writes: bool
    ) -> None:
        self.plan: Final = plan
        """The models and their pipelines."""
        self.pauses: Final = pauses
        """The instrument that pauses them."""
        self.tree: Final = tree
        """The instrument that records their passes."""
        self.errors: Final[dict[str, BaseException]] = {}
        """The errors of the models that have failed, by name."""
        self.done: Final[list[Job]] = []
        """The models that have ended without an error, in this order."""
        self.failure: Exception | None = None
        """The error that ended the whole run."""
        self.is_over: bool = False
        """Whether no model runs any more."""
        self.news: Final = Signal()
        """A model has ended."""
        self._context = context
        self._writes = writes
        self._scope: anyio.CancelScope | None = None

    @property
    def jobs(self) -> Sequence[Job]:
        """The models."""
        return self.plan.jobs

    @property
    def unfinished(self) -> int:
        """The number of models that have not ended."""
        return len(self.jobs) - len(self.done) - len(self.errors)

    def stop(self) -> None:
        """Cancel the models that run."""
        if self._scope is not None:
            self._scope.cancel()

    async def run(self) -> None:
        """Run all models, and keep their errors."""
        try:
            with anyio.CancelScope() as self._scope:
                async with self._context:
                    limiter = anyio.CapacityLimiter(LIMIT)
                    async with anyio.create_task_group() as tasks:
                        for job in self.jobs:
                            tasks.start_soon(self._run_job, job, limiter)
        except Exception as error:
            self.failure = error
        finally:
            self.is_over = True
            self.news.notify()

    async def _run_job(self, job: Job, limiter: anyio.CapacityLimiter) -> None:
        model_format, pipeline = self.plan.treatment_of(job)
        async with limiter:
            enter_module(job.name)
            try:
                mod = await run_sync(model_format.load, job.source)
                with errors_of_passes():
                    result = await pipeline(mod)
                if self._writes:
                    await run_sync(_write, model_format, result, job)
            except Exception as error:
                self.errors[job.name] = error
            else:
                self.done.append(job)
        self.tree.end(job.name, failed=job.name in self.errors)
        self.news.notify()


def _write(model_format: ModelFormat, result: Any, job: Job) -> None:
    job.target.parent.mkdir(parents=True, exist_ok=True)
    model_format.save(result, job.target)
