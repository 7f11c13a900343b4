"""Guards: work cut off when its time is over, and what becomes of a function whose body failed; for the runner."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.core.context import PassContext, current_scope
from apass.core.deadline import Budget
from apass.core.diagnostics import Diagnostic, DiagnosticLevel
from apass.core.info import PassInfo
from apass.core.run import Run, current_run, note_whereabouts
from apass.errors import PassResultError, PassTimeoutError
from apass.runner.error_policy import note_failure

__all__ = ["Elsewhere", "Fallback", "Guarded", "OnError", "guarded", "within"]

F = TypeVar("F")

Fallback = Callable[[Any, Any, PassContext, Exception], Any]
"""A function `(func, mod, ctx, error) -> func`, plain or async: what to make of a function whose body failed."""

OnError = Literal["raise", "keep"] | Fallback
"""What a function pass does when a body fails: raise the error; keep the function as it was and warn; fall back."""


class Guarded(Protocol[F]):
    """What the guard needs of a function pass. A Protocol, because the guard lies below the passes that call it."""

    info: PassInfo
    """The metadata of the pass."""
    timeout: float | None
    """Seconds for one body."""
    on_error: OnError
    """What to do when a body fails."""

    def transform_function(self, func: F, mod: Any, ctx: PassContext) -> F | Awaitable[F]:
        """Do the work on one function."""
        ...


@dataclass(slots=True)
class Elsewhere:
    """A function pass whose bodies do not simply run: in an executor, or behind a store; a `Guarded`."""

    info: PassInfo
    """The metadata of the pass."""
    on_error: OnError
    """What to do when a body fails."""
    transform_function: Callable[..., Awaitable[Any]]
    """Has the body run, or gives what it would."""
    timeout: float | None = None
    """Seconds for one body; None where the executor looks after them, as work may stand in line."""


async def guarded(pass_: Guarded[F], func: F, mod: Any, ctx: PassContext) -> F:
    """Run one body within its time and the budget; if it fails, do what the pass's `on_error` says."""
    try:
        return await _in_time(pass_, func, mod, ctx)
    except Exception as error:
        if pass_.on_error == "raise":
            raise
        run = current_run() or Run(pass_.info, None)
        note_whereabouts(error, run)
        note_failure()
        if pass_.on_error == "keep":
            ctx.diag_ctx.emit(_diagnostic(DiagnosticLevel.WARNING, "left function {} as it was", error, run))
            return func
        return await _fall_back(pass_.on_error, func, mod, ctx, error, run)


async def within(budget: Budget, what: str, work: Callable[..., Any], *given: Any) -> Any:
    """Return what `work(*given)`, plain or async, gives; BudgetExceededError about `what` if the budget ends before.

    With nothing left, the work is not begun.
    """
    if not budget.left():
        raise budget.exceeded(what)
    return await _cut_off(budget, what, work, *given)


async def _cut_off(budget: Budget | None, what: str, work: Callable[..., Any], *given: Any) -> Any:
    result = work(*given)
    if not is_awaitable(result) or budget is None:
        return await result if is_awaitable(result) else result
    with anyio.move_on_after(budget.left()):
        return await result
    raise budget.exceeded(what)


async def _in_time(pass_: Guarded[F], func: F, mod: Any, ctx: PassContext) -> F:
    name, budget = pass_.info.name, current_scope().budget
    limit = float("inf") if pass_.timeout is None else pass_.timeout
    left = float("inf") if budget is None else budget.left()
    if left > 0:
        with anyio.move_on_after(min(limit, left)) as scope:
            result: Any = pass_.transform_function(func, mod, ctx)
            if is_awaitable(result):
                result = await result
            if result is None:
                raise PassResultError(f"pass {name!r} returned None for a function")
            # A body that never suspends cannot be cut off, but it is over its time as well.
            if anyio.current_time() < scope.deadline:
                return cast("F", result)
    if budget is not None and left <= limit:
        raise budget.exceeded(f"the body of pass {name!r}")
    raise PassTimeoutError(f"the body of pass {name!r} took longer than {limit:g} s")


async def _fall_back(fallback: Fallback, func: F, mod: Any, ctx: PassContext, error: Exception, run: Run) -> F:
    """Return what the fallback makes of the function; what it can do without waiting it may do without a budget."""
    what = f"the fallback of pass {run.info.name!r}"
    result = await _cut_off(current_scope().budget, what, fallback, func, mod, ctx, error)
    if result is None:
        raise PassResultError(f"{what} returned None; return the new function, or `func` if unchanged")
    ctx.diag_ctx.emit(_diagnostic(DiagnosticLevel.NOTE, "fell back for function {}", error, run))
    return cast("F", result)


def _diagnostic(level: DiagnosticLevel, what: str, error: Exception, run: Run) -> Diagnostic:
    reason = f"{type(error).__name__}: {error}"
    message = f"pass {run.info.name!r} {what.format(repr(run.function))}: {reason}"
    return Diagnostic(level, message, None, run.info.name, run.function, run.module)
