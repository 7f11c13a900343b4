"""The fan-out of a function pass: its bodies run one by one, or concurrently.

Concurrent bodies run in workers that share a queue.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, replace
from gc import get_referents
from operator import is_, length_hint
from time import perf_counter
from types import NoneType
from typing import Any, Final, Never, cast

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from apass.concurrency.coroutines import METER, finish_in, is_awaitable, metered_task, missing_await
from apass.concurrency.interleaving import InterleavingScheduler
from apass.concurrency.scheduler import LoopScheduler
from apass.concurrency.shielding import flatten_errors
from apass.core.run import RUN, Run, RunCursor, current_run, note_whereabouts
from apass.core.tracebacks import hidden_in_pytest
from apass.errors import PassResultError

__all__ = ["Body", "FunctionBatch", "run_concurrently", "run_inline"]

__tracebackhide__ = hidden_in_pytest

Body = Callable[..., Any]
"""A function or async function, called as `body(func, mod, ctx)`."""

BUSY: Final = 16
"""If more bodies than this start in one iteration of the loop, one more worker is of no use yet."""

_PENDING: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class FunctionBatch:
    """The functions that a function pass visits, with context and scheduler."""

    run: Run
    """The run of the function pass."""
    names: Sequence[str]
    """The names of the functions."""
    funcs: Sequence[Any]
    """The functions, in the same order."""
    mod: Any
    """The module, as it was given to the pass."""
    ctx: Any
    """The context that is given to each body."""
    scheduler: LoopScheduler
    """The slots and the time slice of that context."""


async def run_inline(body: Body, batch: FunctionBatch) -> Mapping[str, Any]:
    """Run a plain function on each function of a batch, one after the other.

    Each body runs in a copy of the caller's contextvars. Between bodies, the event loop runs whenever a time slice has
    expired. If a body returns an awaitable, as a lambda over an async function does, it is awaited after all of them
    have run, concurrently.

    Returns:
        What bodies returned, by name, without those that returned the function itself.

    Raises:
        PassResultError: if a body returned None.

    """
    if isinstance(batch.scheduler, InterleavingScheduler):
        order = batch.scheduler.order(batch.names, _label(batch.run))
        names, funcs = [batch.names[index] for index in order], [batch.funcs[index] for index in order]
        batch = replace(batch, names=names, funcs=funcs)
    mod, ctx, scheduler = batch.mod, batch.ctx, batch.scheduler
    cursor = RunCursor(batch.run, mod)
    fresh = copy_context()
    fresh.run(RUN.set, cursor)
    changed: dict[str, Any] = {}
    try:
        for name, func in zip(batch.names, batch.funcs, strict=True):
            cursor.item = name
            result = fresh.copy().run(body, func, mod, ctx)
            if result is not func:
                changed[name] = result
            if perf_counter() > scheduler.slice_ends:
                await scheduler.yield_to_loop()
    except BaseException as error:
        _close_coroutines(changed.values())
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            note_whereabouts(error, cursor.run() or batch.run)
        raise
    # One look at the types, as most passes return thousands of functions of one type.
    kinds = set(map(type, changed.values()))
    if any(hasattr(kind, "__await__") for kind in kinds):
        return await _await_results(changed, batch)
    return changed if NoneType not in kinds else _reject(changed, batch)


async def run_concurrently(body: Body, batch: FunctionBatch) -> Mapping[str, Any]:
    """Run an async function on all functions of a batch concurrently.

    For example, 1,000 bodies that await a service run in up to `max_concurrency` workers, and 1,000 bodies that never
    suspend run in the caller's task, without a task of their own.

    The caller is one worker. It starts a second one when a body suspends. Each further worker starts another before its
    own first body, as long as the scheduler has a slot and a function is left. So bodies that never suspend cost no
    task, and a nested fan-out never waits for a slot. Each body runs in contextvars that no other body has written to.
    Between bodies, the event loop runs whenever a time slice has expired (see `LoopScheduler`).

    The first failure cancels the other bodies. One error is raised as itself, several as one flat group, each with a
    note that names the place. If the surrounding scope is cancelled as well, errors take precedence.

    Returns:
        What bodies returned, by name, without those that returned the function itself.

    Raises:
        PassResultError: if a body returned None, or an awaitable.

    """
    if isinstance(batch.scheduler, InterleavingScheduler):
        run = batch.run
        body = batch.scheduler.interleaved(body, batch.names, run.info.name, _label(run), _current_function)
    fan_out = _FanOut(body, batch)
    # A task group costs as much as ten bodies; a single body needs none.
    await (fan_out.run_as_caller() if len(batch.funcs) == 1 else fan_out.run())
    results = fan_out.results()
    # Most bodies change nothing, and `map` finds that out in half the time.
    if all(map(is_, results, batch.funcs)):
        return {}
    triples = zip(batch.names, batch.funcs, results, strict=True)
    changed = {name: result for name, func, result in triples if result is not func}
    kinds = set(map(type, changed.values()))
    if NoneType in kinds or any(hasattr(kind, "__await__") for kind in kinds):
        _reject(changed, batch)
    return changed


def _label(run: Run) -> str:
    """Return what identifies a run, also if the pass runs alone in a replay."""
    return f"{run.module} {run.info.name}"


def _current_function() -> str:
    run = current_run()
    assert run is not None, "a body runs within a pass"
    assert run.function is not None, "a body runs on a function"
    return run.function


def _reject(changed: Mapping[str, Any], batch: FunctionBatch) -> Never:
    """Raise PassResultError for the first result that is None or awaitable."""
    name, result = next((name, result) for name, result in changed.items() if result is None or is_awaitable(result))
    _close_coroutines(changed.values())
    owner = f"pass {batch.run.info.name!r}"
    if result is not None:
        raise missing_await(result, f"{owner}, for function {name!r},", "a function")
    raise PassResultError(
        f"{owner} returned None for function {name!r}; return the new function, or `func` if unchanged"
    )


class _Worker(RunCursor):
    """A worker's position in the queue, and whether it is to start one more worker."""

    __slots__ = ("may_start_helper",)

    def __init__(self, fan_out: "_FanOut") -> None:
        super().__init__(fan_out.batch.run, fan_out.batch.mod, fan_out.queue)
        self.may_start_helper = False


class _FanOut:
    """One concurrent run of a body over a batch."""

    def __init__(self, body: Body, batch: FunctionBatch) -> None:
        self.body = body
        self.batch = batch
        self.scheduler = batch.scheduler
        self.queue = iter(range(len(batch.funcs)))
        self.done: list[Any] = [_PENDING] * len(batch.funcs)
        self.errors: list[BaseException] = []
        self.foreign_cancellation: BaseException | None = None
        self.group: TaskGroup | None = None
        self.helpers = 0

    def results(self) -> list[Any]:
        """Return the results, or raise the errors of the bodies."""
        if self.errors:
            raise flatten_errors("several functions failed", self.errors)
        # A body may end cancelled though no scope asked for it: it awaited a task that other code cancelled.
        if self.foreign_cancellation is not None:
            raise self.foreign_cancellation
        return self.done

    async def run(self) -> None:
        """Run the bodies with helpers, at most as many as there are free slots."""
        try:
            async with anyio.create_task_group() as self.group:
                await self.run_as_caller()
        except anyio.get_cancelled_exc_class():
            if not self.errors:
                raise
        finally:
            self.scheduler.free += self.helpers

    async def run_as_caller(self) -> None:
        """Work in the caller's task, whose contextvars no body may change."""
        worker = _Worker(self)
        fresh = copy_context()
        fresh.run(RUN.set, worker)
        try:
            await self.run_stepped(worker, fresh, may_start_helper=True)
        except BaseException as error:
            if not self.record_error(error, worker):
                raise

    async def run_helper(self, left: int) -> None:
        """Work in a task of its own, and return the slot at the end.

        No other code sees the contextvars of this task, so bodies are simply awaited. Once a body has left them
        changed, the following ones are stepped.
        """
        worker = _Worker(self)
        # Start a helper only after taking an item. Otherwise a cancelled fan-out would spawn helpers forever.
        worker.may_start_helper = True
        RUN.set(worker)
        fresh = copy_context()
        try:
            await self.wait_until_needed(left)
            while length_hint(self.queue):
                await self.wait_for_slice()
                if not await self.run_items(worker):
                    await self.run_stepped(worker, fresh)
        except BaseException as error:
            if not self.record_error(error, worker):
                raise
        finally:
            self.helpers -= 1
            self.scheduler.free += 1

    async def run_items(self, worker: _Worker) -> bool:
        """Run bodies until the queue is empty or the time slice expires.

        Stop earlier if a body has changed contextvars. Return whether they are unchanged.
        """
        body, scheduler, done = self.body, self.scheduler, self.done
        names, funcs, mod, ctx = self.batch.names, self.batch.funcs, self.batch.mod, self.batch.ctx
        untouched = variables_of(copy_context())
        for index in self.queue:
            worker.item = names[index]
            if worker.may_start_helper:
                worker.may_start_helper = self.start_helper()
            done[index] = await body(funcs[index], mod, ctx)
            if variables_of(copy_context()) is not untouched:
                return False
            # If other workers have taken items meanwhile, this body was suspended, and the loop has run.
            if perf_counter() > scheduler.slice_ends and index + 1 + length_hint(self.queue) == len(funcs):
                break
        return True

    async def run_stepped(self, worker: _Worker, fresh: Context, *, may_start_helper: bool = False) -> None:
        """Run bodies until the queue is empty, in copies of the context `fresh`.

        A body that changes its contextvars is followed by a new copy. The coroutine is stepped by hand, because only
        `Context.run` can give it a context other than the task's.
        """
        while length_hint(self.queue):
            await self.wait_for_slice()
            context = fresh.copy()
            work = self.run_items(worker)
            try:
                trap = context.run(work.send, None)
            except StopIteration:
                continue
            # A body has suspended: from now on, another worker is of use.
            if may_start_helper:
                may_start_helper = False
                worker.may_start_helper = fresh.run(self.start_helper)
            await finish_in(context, work, trap)

    async def wait_for_slice(self) -> None:
        """Return in a time slice that has not expired."""
        if perf_counter() > self.scheduler.slice_ends:
            await self.scheduler.yield_to_loop()

    async def wait_until_needed(self, left: int) -> None:
        """Return after an iteration of the loop in which the workers started few bodies.

        `left` is the number of bodies that were queued before. As long as they start many, one more worker is of no
        use: a task costs more than starting several bodies.
        """
        while left - length_hint(self.queue) > BUSY:
            left = length_hint(self.queue)
            await checkpoint()

    async def run_helper_metered(self, left: int) -> None:
        """Run a helper whose steps count for the timed passes that wait for its result."""
        await metered_task(self.run_helper(left))

    def start_helper(self) -> bool:
        """Start a worker if an item is queued and a slot is free.

        Return whether to try again later.
        """
        left = length_hint(self.queue)
        if self.group is None or not left:
            return False
        if self.scheduler.free < 1:
            return True
        self.scheduler.free -= 1
        self.helpers += 1
        self.group.start_soon(self.run_helper_metered if METER.get() else self.run_helper, left, name="apass helper")
        return False

    def record_error(self, error: BaseException, worker: _Worker) -> bool:
        """Record the error of the current body, and cancel the others.

        Return False if the error is a cancellation.
        """
        failure = self.without_cancellation(error)
        if failure is None:
            # A body may have raised it. The coroutine must end with it all the same.
            if isinstance(error, GeneratorExit):
                note_whereabouts(error, worker.run() or self.batch.run)
            return False
        note_whereabouts(failure, worker.run() or self.batch.run)
        self.errors.append(failure)
        if self.group is not None:
            self.group.cancel_scope.cancel()
        return True

    def without_cancellation(self, error: BaseException) -> BaseException | None:
        """Return the part of an error that is neither a cancellation nor a GeneratorExit.

        If there is no such part, return None.
        """
        cancellation = (anyio.get_cancelled_exc_class(), GeneratorExit)
        if isinstance(error, cancellation):
            self.foreign_cancellation = error
            return None
        if isinstance(error, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", error)
            rest = group.split(cancellation)[1]
            return group if rest is not None and len(rest.exceptions) == len(group.exceptions) else rest
        return error


async def _await_results(changed: dict[str, Any], batch: FunctionBatch) -> Mapping[str, Any]:
    """Await the results that are awaitable, concurrently; return all of them."""
    names = [name for name, result in changed.items() if is_awaitable(result)]
    waiting = FunctionBatch(batch.run, names, [changed[name] for name in names], None, batch.ctx, batch.scheduler)

    async def wait(result: Awaitable[Any], _mod: object, _ctx: object) -> Any:
        return await result

    try:
        changed.update(await run_concurrently(wait, waiting))
    except BaseException:
        # After a failure, no worker has reached some of them.
        _close_coroutines(changed.values())
        raise
    funcs = dict(zip(batch.names, batch.funcs, strict=True))
    return {name: result for name, result in changed.items() if result is not funcs[name]}


def _close_coroutines(results: Iterable[object]) -> None:
    """Close coroutines that a plain function returned and that will not be awaited."""
    for result in results:
        if isinstance(result, Coroutine):
            result.close()


def variables_of(context: Context) -> object:
    """Return an object that changes if and only if a variable of the context does.

    CPython keeps the variables in an immutable map, and `set` replaces the map. No API returns it, but the garbage
    collector reports it as the last object that a context refers to. An interpreter that does not report it gets a new
    object each time: then every body is stepped in a context of its own, which is correct and slower.
    """
    referents = get_referents(context)
    return referents[-1] if referents else object()
