"""Deadlines, timeouts and `on_error`: limits of work, and reactions to failures."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf
from typing import Any, Literal, TypeVar

import anyio

from apass.concurrency.coroutines import await_once, is_awaitable
from apass.concurrency.work_limits import limited_work
from apass.core.context import PassContext
from apass.core.deadline import Deadline
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.failures import note_failure
from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_module_name, current_run, note_whereabouts
from apass.core.tracebacks import hidden_in_pytest
from apass.errors import (
    ExecutorError,
    PassCancelledError,
    PassExitedError,
    PassResultError,
    PassTimeoutError,
    UnknownAnswerError,
)
from apass.util.text import text_of_error

__all__ = [
    "Fallback",
    "OnError",
    "errors_of_passes",
    "with_deadline",
    "with_error_policy",
    "with_limits",
]

__tracebackhide__ = hidden_in_pytest

R = TypeVar("R")

Fallback = Callable[..., Any]
"""A function, plain or async, called when the body of a pass failed.

It is called as `(func, mod, ctx, error) -> func`, or for a module pass as `(mod, ctx, error) -> mod`.
"""

OnError = Literal["raise", "keep"] | Fallback
"""What a pass does when its body fails: raise the error, keep the input and warn, or call a fallback."""


@contextmanager
def errors_of_passes() -> Generator[None]:
    """Raise exits and foreign cancellations as errors of one model.

    Raises:
        PassExitedError: if a pass called `sys.exit`.
        PassCancelledError: if a pass awaited something that was cancelled elsewhere.

    """
    try:
        yield
    except SystemExit as end:
        raise PassExitedError.of(end) from end
    except anyio.get_cancelled_exc_class() as cancellation:
        # A deadline of -inf means that this task itself is cancelled.
        if anyio.current_effective_deadline() == -inf:
            raise
        raise PassCancelledError("the pass awaited something that was cancelled outside the run") from cancellation


def with_deadline(work: Callable[..., Any], deadline: Deadline, work_name: str) -> Callable[..., Any]:
    """Return `work`, limited by a deadline.

    If it takes longer, it fails with an error that names `work_name`. If no time is left, the work is not started.
    """

    async def run(*args: Any) -> Any:
        if not deadline.left():
            raise deadline.missed(work_name)
        result = await _call_until(deadline, work_name, work, *args)
        # Work that never suspends cannot be cut off. The error must not name the next pass.
        if not deadline.left():
            raise deadline.exceeded(work_name)
        return result

    return run


def with_limits(
    body: Callable[..., Any], name: str, timeout: float | None, deadline: Deadline | None
) -> Callable[..., Any]:
    """Return the body of a pass, limited by its timeout and by a deadline.

    Parameters:
        body: called as `body(func, mod, ctx)`, or as `body(mod, ctx)` for a module pass; plain or async.
        name: the name of the pass.
        timeout: seconds for one body, without its time in queues; None where the executor limits them.
        deadline: the deadline of the scope.

    """
    limit = inf if timeout is None else timeout

    async def run(*args: Any) -> Any:
        left = inf if deadline is None else deadline.left()
        cancellation: list[BaseException] = []
        is_deadline = True
        if left > 0:
            with limited_work(limit, left) as work, _noting_cancellation(cancellation):
                result = await await_once(body(*args), f"pass {name!r}")
                if result is None:
                    raise PassResultError(f"pass {name!r} returned None for a {'function' if args[2:] else 'module'}")
                # A body that never suspends cannot be cut off. It has exceeded its time all the same.
                if not work.is_over:
                    return result
            is_deadline = work.is_ended
        error: Exception = PassTimeoutError(f"the body of pass {name!r} took longer than {limit:g} s")
        if deadline is not None and is_deadline:
            error = deadline.exceeded(f"the body of pass {name!r}")
        raise error from next(iter(cancellation), None)

    return run


def with_error_policy(
    body: Callable[..., Any], info: PassInfo, on_error: OnError, deadline: Deadline | None
) -> Callable[..., Any]:
    """Return the body of a pass, with its `on_error` applied.

    Parameters:
        body: an async body, as `with_limits` returns it.
        info: the metadata of the pass.
        on_error: what to do when a body fails.
        deadline: the deadline of the scope, for a fallback.

    """

    async def run(*args: Any) -> Any:
        try:
            return await body(*args)
        except (ExecutorError, UnknownAnswerError):
            # A pass that cannot be sent to a worker has never run. One whose replay lacks an answer has not failed in
            # the run that is replayed.
            raise
        except Exception as error:
            return await _recovered(args, error, info, on_error, deadline)

    return run


async def _recovered(
    args: tuple[Any, ...], error: Exception, info: PassInfo, on_error: OnError, deadline: Deadline | None
) -> Any:
    """Return the result of a body that failed: its input, or the fallback's."""
    ctx: PassContext = args[-1]
    run = current_run() or Run(info, None, module=current_module_name())
    note_whereabouts(error, run)
    note_failure()
    if not callable(on_error):
        ctx.diag_ctx.emit(_diagnostic(DiagnosticLevel.WARNING, "left {} as it was", error, run))
        return args[0]
    work_name = f"the fallback of pass {info.name!r}"
    # A fallback that does not suspend may run after the deadline.
    result = await _call_until(deadline, work_name, on_error, *args, error)
    if result is None:
        noun, argument = ("function", "func") if args[2:] else ("module", "mod")
        raise PassResultError(
            f"{work_name} returned None; return the new {noun}, or `{argument}` if unchanged"
        ) from error
    ctx.diag_ctx.emit(_diagnostic(DiagnosticLevel.NOTE, "fell back for {}", error, run))
    return result


async def _call_until(deadline: Deadline | None, work_name: str, work: Callable[..., Any], *args: Any) -> Any:
    """Return the result of `work(*args)`, plain or async.

    Raises:
        BudgetExceededError: if awaiting the result takes longer than the deadline.

    """
    result = work(*args)
    if not is_awaitable(result) or deadline is None:
        return await await_once(result, work_name)
    cancellation: list[BaseException] = []
    with anyio.move_on_after(deadline.left()), _noting_cancellation(cancellation):
        return await await_once(result, work_name)
    raise deadline.exceeded(work_name) from next(iter(cancellation), None)


@contextmanager
def _noting_cancellation(found: list[BaseException]) -> Generator[None]:
    """Add the cancellation of the block to a list; its traceback has the line."""
    try:
        yield
    except anyio.get_cancelled_exc_class() as error:
        found.append(error)
        raise


def _diagnostic(level: DiagnosticLevel, reaction: str, error: Exception, run: Run) -> Diagnostic:
    reason = f"{type(error).__name__}: {text_of_error(error)}"
    subject = "the module" if run.function is None else f"function {run.function!r}"
    message = f"pass {run.info.name!r} {reaction.format(subject)}: {reason}"
    return Diagnostic(level, message, None, run.info.name, run.function, run.module)
