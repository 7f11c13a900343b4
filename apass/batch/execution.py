"""`module_runner`: where and how long a pass runs on each module of a batch."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio

from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope
from apass.core.executor import ExecutorChoice, executor_in_force
from apass.core.portable import check_portable
from apass.errors import PassTimeoutError
from apass.passes.base import Pass
from apass.runner.error_policy import with_deadline

__all__ = ["module_runner"]


def module_runner(
    pass_: Pass[ModT], choice: ExecutorChoice, timeout: float | None = None
) -> Callable[[ModT], Awaitable[ModT]]:
    """Return a function that runs a pass on a module, here or in the chosen executor.

    The function raises PassTimeoutError if a module takes longer than `timeout` seconds.

    Raises:
        PassContextError: if there is an executor, and an instrument of the context cannot be used in a worker.

    """
    executor = executor_in_force(choice)
    ctx = PassContext.current()
    if executor is None:
        return pass_ if timeout is None else _limited(pass_, timeout)
    check_portable(ctx.instruments)

    async def run_in_executor(mod: ModT) -> ModT:
        deadline = current_scope().deadline
        work: Callable[..., Any] = executor.optimize if timeout is None else partial(executor.optimize, timeout=timeout)
        if deadline is not None:
            work = with_deadline(work, deadline, f"pass {pass_.info.name!r}")
        result: ModT = await work(pass_, mod, ctx)
        return result

    return run_in_executor


def _limited(pass_: Pass[ModT], timeout: float) -> Callable[[ModT], Awaitable[ModT]]:
    async def run_in_time(mod: ModT) -> ModT:
        with anyio.move_on_after(timeout) as scope:
            result = await pass_(mod)
            # A pass that never suspends cannot be cut off. It has exceeded its time all the same.
            if anyio.current_time() < scope.deadline:
                return result
        raise PassTimeoutError(f"pass {pass_.info.name!r} took longer than {timeout:g} s")

    return run_in_time
