"""`module_runner`: where and how long a pass runs on each module of a batch."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import anyio

from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope, limited_to
from apass.core.deadline import LATE_SECONDS, TimeLimit
from apass.core.executor import ExecutorChoice, executor_in_force
from apass.executors.instrument_twins import check_portable
from apass.executors.processes import ProcessExecutor
from apass.passes.base import Pass
from apass.runner.error_policy import with_deadline

__all__ = ["ContinuesPipelines", "module_runner"]


@runtime_checkable
class ContinuesPipelines(Protocol):
    """An instrument that continues interrupted pipelines: `SnapshotInstrument`."""

    def run_continued(
        self, pass_: Pass[ModT], mod: ModT, *, runner: Callable[[Pass[ModT]], Callable[[ModT], Awaitable[ModT]]]
    ) -> Awaitable[ModT]:
        """Run a pass on a module, or what an earlier run has left of it.

        Parameters:
            pass_: the pass.
            mod: the module.
            runner: returns the function that runs a pass on a module.

        """
        ...


def module_runner(
    pass_: Pass[ModT], choice: ExecutorChoice, timeout: float | None = None, *, donate: bool = False
) -> Callable[[ModT], Awaitable[ModT]]:
    """Return a function that runs a pass on a module, here or in the chosen executor.

    The function raises PassTimeoutError if a module takes longer than `timeout` seconds. If an instrument of the
    context `ContinuesPipelines`, it runs the rest that an earlier run has left. With `donate`, nothing else uses the
    modules, so that passes in this process may change them in place.

    Raises:
        PassContextError: if there is an executor, and an instrument of the context cannot be used in a worker.

    """
    for instrument in PassContext.current().instruments:
        if isinstance(instrument, ContinuesPipelines):
            runner: Any = partial(_runner, choice=choice, timeout=timeout, donate=donate)
            runner(pass_)  # raises before the first module
            return partial(instrument.run_continued, pass_, runner=runner)
    return _runner(pass_, choice, timeout, donate=donate)


def _runner(
    pass_: Pass[ModT], choice: ExecutorChoice, timeout: float | None, *, donate: bool
) -> Callable[[ModT], Awaitable[ModT]]:
    executor = executor_in_force(choice)
    if isinstance(executor, ProcessExecutor) and pass_.execution.in_program:
        executor = None
    ctx = PassContext.current()
    if executor is None:
        run = partial(pass_, donate=True) if donate else pass_
        return run if timeout is None else _limited(run, pass_.info.name, timeout)
    check_portable(ctx.instruments)

    async def run_in_executor(mod: ModT) -> ModT:
        deadline = current_scope().deadline
        work: Callable[..., Any] = executor.optimize if timeout is None else partial(executor.optimize, timeout=timeout)
        if deadline is not None:
            work = with_deadline(work, deadline, f"pass {pass_.info.name!r}")
        result: ModT = await work(pass_, mod, ctx)
        return result

    return run_in_executor


def _limited(run: Callable[[ModT], Awaitable[ModT]], name: str, timeout: float) -> Callable[[ModT], Awaitable[ModT]]:
    async def run_in_time(mod: ModT) -> ModT:
        # The limit applies to each pass, so that the error names the one that ran. Anything else, such as `open`, has
        # some seconds more.
        limit = TimeLimit.from_now(timeout)
        with anyio.move_on_after(timeout + LATE_SECONDS), limited_to(limit):
            return await run(mod)
        raise limit.exceeded(f"pass {name!r}")

    return run_in_time
