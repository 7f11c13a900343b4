"""Driving a coroutine step by step: in a contextvars context of its own, or under a clock; for the runner."""

from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from functools import partial
from inspect import iscoroutinefunction
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar, cast

from anyio import get_current_task

__all__ = [
    "METER",
    "StepReport",
    "finish_in",
    "is_async",
    "is_awaitable",
    "metered",
    "metered_pass",
    "metered_task",
]

R = TypeVar("R")

StepReport = Callable[[float, float], object]
"""Takes the `perf_counter` times between which a coroutine held the loop."""

METER: ContextVar[tuple[tuple[int, StepReport], ...]] = ContextVar("apass_meter", default=())
"""Who wants to know of steps: for each enclosing pass that is timed, the task whose steps it gets already, and how."""


def is_awaitable(value: object) -> bool:
    """Tell whether `value` must be awaited; cheaper than `inspect.isawaitable`."""
    return hasattr(type(value), "__await__")


def is_async(function: Callable[..., object]) -> bool:
    """Tell whether calling `function` gives something to await, as far as that can be seen without calling it."""
    while isinstance(function, partial):
        function = function.func
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


@coroutine
def finish_in(context: Context, body: Coroutine[Any, Any, R], trap: Any) -> Generator[Any, Any, R]:
    """Run `body` on to its end, each step inside `context`, and return what it returns; await this.

    `trap` is what the first step, already made, gave to the event loop. Whatever the loop sends or throws goes to the
    body, so cancellation and timeouts work as if the body were awaited directly.
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
    """Run `body` to its end and return what it returns, reporting each step that it held the loop for; await this."""
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
    """Run `body` as the whole of a new task, so that its steps count for every timed pass that it works for."""
    if not METER.get():
        return await body
    task = get_current_task().id
    report = _report_elsewhere(task)
    METER.set(tuple((task, one) for _, one in METER.get()))
    return await metered(body, report)


async def metered_pass(body: Coroutine[Any, Any, R], report: StepReport) -> R:
    """Run `body`, the work of a pass, reporting its steps, and those of tasks that it starts, to `report`.

    Where the pass runs in a task that a pass around it has started, its steps count for that one too.
    """
    task = get_current_task().id
    elsewhere = _report_elsewhere(task)

    def report_all(start: float, end: float) -> None:
        report(start, end)
        elsewhere(start, end)

    before = METER.get()
    METER.set((*((task, one) for _, one in before), (task, report)))
    try:
        return await metered(body, report_all)
    finally:
        METER.set(before)


def _report_elsewhere(task: int) -> StepReport:
    """Return a report to those in the meter who do not get the steps of `task` already."""
    reports = [one for at, one in METER.get() if at != task]

    def report(start: float, end: float) -> None:
        for one in reports:
            one(start, end)

    return report
