"""Coroutines driven step by step, in a separate context or with timing.

A step is what runs between two suspensions. The runner uses this module.
"""

from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from functools import partial
from inspect import iscoroutinefunction
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar, cast

from anyio import get_current_task

from apass.errors import PassResultError

__all__ = [
    "METER",
    "StepReport",
    "await_once",
    "finish_in",
    "is_async",
    "is_awaitable",
    "metered",
    "metered_pass",
    "metered_task",
    "missing_await",
]

R = TypeVar("R")

StepReport = Callable[[float, float], object]
"""Receives the `perf_counter` times at the start and the end of one step of a coroutine."""

METER: ContextVar[tuple[tuple[int, StepReport], ...]] = ContextVar("apass_meter", default=())
"""The report of each enclosing timed pass, with the id of the task whose steps it already receives."""


def is_awaitable(value: object) -> bool:
    """Return whether `value` must be awaited; cheaper than `inspect.isawaitable`."""
    return hasattr(type(value), "__await__")


async def await_once(outcome: Any, owner: str) -> Any:
    """Return the result of a function that may be plain or async.

    Parameters:
        outcome: what the function returned: its result, or an awaitable of it.
        owner: the name of the function, for messages.

    Raises:
        PassResultError: if the result is awaitable itself, which suggests a missing `await`.

    """
    result = await outcome if is_awaitable(outcome) else outcome
    if is_awaitable(result):
        raise missing_await(result, owner)
    return result


def missing_await(result: object, owner: str, noun: str = "a result") -> PassResultError:
    """Close a coroutine that `owner` returned in place of `noun`; return the error."""
    name = getattr(result, "__qualname__", None)
    if isinstance(result, Coroutine):
        result.close()
    what = f"the coroutine {name!r}" if isinstance(name, str) else f"the awaitable {result!r}"
    return PassResultError(f"{owner} returned {what}, which is not {noun}; forgot await?")


def is_async(function: Callable[..., object]) -> bool:
    """Return whether `function` is known to return an awaitable, without calling it."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@coroutine
def finish_in(context: Context, body: Coroutine[Any, Any, R], trap: Any) -> Generator[Any, Any, R]:
    """Run the remaining steps of `body` inside `context`, and return its result.

    Await this. Values and exceptions from the event loop are passed to the body, so cancellation and timeouts work as
    if the body were awaited directly.

    Parameters:
        context: the context that every step runs in.
        body: a coroutine whose first step has been made.
        trap: the value that the first step yielded to the event loop.

    """
    run = context.run
    while True:
        try:
            sent = yield trap
        except GeneratorExit:
            run(body.close)
            raise
        except BaseException as thrown:
            step: Callable[[Any], Any] = body.throw
            argument: Any = thrown
        else:
            step, argument = body.send, sent
        try:
            trap = run(step, argument)
        except StopIteration as stop:
            return cast("R", stop.value)


@coroutine
def metered(body: Coroutine[Any, Any, R], report: StepReport) -> Generator[Any, Any, R]:
    """Run `body`, report the times of each step, and return its result; await this."""
    step: Callable[[Any], Any] = body.send
    argument: Any = None
    while True:
        start = perf_counter()
        try:
            trap = step(argument)
        except StopIteration as stop:
            return cast("R", stop.value)
        finally:
            report(start, perf_counter())
        try:
            argument = yield trap
        except GeneratorExit:
            body.close()
            raise
        except BaseException as thrown:
            step, argument = body.throw, thrown
        else:
            step = body.send


async def metered_task(body: Coroutine[Any, Any, R]) -> R:
    """Run `body` in a new task, and report its steps to all enclosing passes."""
    if not METER.get():
        return await body
    task = get_current_task().id
    report = _report_to_other_tasks(task)
    METER.set(tuple((task, outer) for _, outer in METER.get()))
    return await metered(body, report)


async def metered_pass(body: Coroutine[Any, Any, R], report: StepReport) -> R:
    """Run the body of a pass, and report its steps to `report`.

    The steps of tasks that the body starts are reported too. If the pass runs in a task that an enclosing pass started,
    the steps are also reported to that pass.
    """
    task = get_current_task().id
    # Enclosing passes in this task need no report: this coroutine's steps are part of theirs.
    report_to_others = _report_to_other_tasks(task)

    def report_all(start: float, end: float) -> None:
        report(start, end)
        report_to_others(start, end)

    before = METER.get()
    METER.set((*((task, outer) for _, outer in before), (task, report)))
    try:
        return await metered(body, report_all)
    finally:
        METER.set(before)


def _report_to_other_tasks(task: int) -> StepReport:
    """Return a report to the passes that do not receive the steps of `task` yet."""
    reports = [report for receiving_task, report in METER.get() if receiving_task != task]

    def report_step(start: float, end: float) -> None:
        for report in reports:
            report(start, end)

    return report_step
