"""`ThreadExecutor`: runs plain bodies, functions and whole passes in threads."""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from threading import get_native_id
from time import perf_counter
from types import TracebackType
from typing import Any, Final, TypeVar, TypeVarTuple

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from apass.concurrency.backend import backend_name
from apass.concurrency.limits import NO_LIMIT, Slots, usable_cores
from apass.core.adapter import adapter_for
from apass.core.analysis_manager import give
from apass.core.context import PassContext, waiting_for
from apass.core.deadline import LATE_SECONDS
from apass.core.executor import STOPPED, Executor
from apass.core.run import RUN, RunCursor, current_module_name, standing_cursor
from apass.errors import ExecutorError, PassTimeoutError
from apass.executors.batching import Batches, Done
from apass.executors.instrument_twins import Delegates, check_portable, records_of
from apass.executors.messages import store_for_worker
from apass.executors.remote import record_passes
from apass.executors.worker import call_transform, check_plain, run_whole_pass
from apass.passes.base import Pass
from apass.util.checks import is_count

__all__ = ["ThreadExecutor", "default"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")
Args = TypeVarTuple("Args")

_Item = tuple[RunCursor | None, Callable[..., Any], tuple[Any, ...]]
"""A function with its arguments, and for a body also its run."""


class ThreadExecutor:
    """An Executor over threads, for bodies that do I/O or release the GIL.

    Bodies receive the function, the module and the context themselves, not copies. A cancelled run waits for the
    running bodies and starts no others. A long body may call `apass.executors.check_cancelled()` to end early. The
    threads are anyio's worker threads and belong to the event loop.

    Parameters:
        workers: maximum number of concurrent threads. The default is the number of CPUs available to this process.

    >>> anyio.run(ThreadExecutor().map, len, ["a", "bc"])
    [1, 2]

    """

    shares_objects: Final = True
    """Bodies use the objects of the program, such as what a pass has opened."""

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and not is_count(workers):
            raise ValueError(f"workers must be a positive int, got {workers!r}")
        self.workers: Final = usable_cores() if workers is None else workers
        """Maximum number of concurrent threads."""
        self._slots: Final = Slots(self.workers)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers,)

    def __repr__(self) -> str:
        return f"ThreadExecutor(workers={self.workers})"

    def slots(self) -> CapacityLimiter:
        """Return the executor's slots in this event loop; each running batch holds one."""
        return self._slots.here()

    def bodies(self, pass_: Any, mod: Any, ctx: PassContext) -> "_Bodies":
        """Prepare to run the bodies of a function pass on `mod` (see `Executor`)."""
        _check_threads(mod)
        return _Bodies(self, pass_)

    async def transform(self, pass_: Any, mod: Any, ctx: PassContext) -> Any:
        """Call the body of a module pass in a thread (see `Executor`).

        An async body runs in an event loop of its own.
        """
        _check_threads(mod)
        arguments = (pass_, mod, ctx, backend_name())
        async with self.slots():
            with waiting_for("a worker thread"):
                done: Done[Any] = (await _in_thread([(standing_cursor(), call_transform, arguments)]))[0]
        result = done.unwrap()
        if pass_.timeout is not None and done.seconds > pass_.timeout:
            raise PassTimeoutError(f"pass {pass_.info.name!r} took longer than {pass_.timeout:g} s")
        return result

    async def optimize(self, pass_: Pass[Any], mod: Any, ctx: PassContext, *, timeout: float | None = None) -> Any:
        """Run a whole pass on `mod` in a separate event loop in a thread.

        The hooks of the context's instruments are called in that loop, on their twins.

        Raises:
            PassContextError: if an instrument cannot be used in a worker.
            PassTimeoutError: if the pass took longer than `timeout` seconds. It is cancelled at its next suspension.

        """
        _check_threads(mod)
        check_portable(ctx.instruments)
        record_passes(pass_)
        async with self.slots():
            delegates = Delegates.of(pass_, ctx.instruments)
            twins = [make() for make in delegates.factories]
            create_store = store_for_worker(ctx)
            store = None if create_store is None else create_store()
            # The deadline of this context ends the work in the thread.
            private = ctx.replace(instruments=twins, store=store, executor=None, deadline=None)
            arguments = (pass_, mod, private, current_module_name(), backend_name(), timeout)
            # The pass that runs fails by itself. Later, anything else is stopped.
            latest = None if timeout is None else timeout + LATE_SECONDS
            try:
                done: Done[Any] = (await _in_thread([(None, run_whole_pass, arguments)], latest))[0]
            except BaseException as error:
                delegates.lose(mod, error)
                raise
        delegates.merge(list(map(records_of, twins)))
        if latest is not None and done.seconds > latest and not isinstance(done.error, PassTimeoutError):
            raise PassTimeoutError(f"pass {pass_.info.name!r} took longer than {timeout:g} s")
        return done.unwrap()

    async def call(self, function: Callable[[*Args], R], *args: *Args) -> R:
        """Return `function(*args)`."""
        async with self.slots():
            done: Done[R] = (await _in_thread([(None, function, args)]))[0]
        return done.unwrap()

    async def map(self, function: Callable[[ItemT], R], items: Iterable[ItemT]) -> list[R]:
        """Return `function(item)` for each of `items`, in order.

        The first failure cancels the remaining calls.
        """
        async with Batches(_in_thread, self.slots()) as batches:
            return await batches.submit_all((None, function, (item,)) for item in items)


class _Bodies:
    """Context manager that provides the async body of one function pass."""

    def __init__(self, executor: ThreadExecutor, pass_: Any) -> None:
        self._pass = pass_
        self._executor = executor

    async def __aenter__(self) -> Callable[..., Awaitable[Any]]:
        self._batches: Batches[_Item, Any] = Batches(_in_thread, self._executor.slots())
        await self._batches.__aenter__()
        return self._body

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._batches.__aexit__(exc_type, exc, traceback)

    async def _body(self, func: Any, mod: Any, ctx: PassContext) -> Any:
        results = {analysis: await ctx.get(analysis, func) for analysis in self._pass.analyses}
        with waiting_for("a worker thread"):
            result, seconds = await self._batches.submit((standing_cursor(), self._timed, (func, mod, ctx, results)))
        limit = self._pass.timeout
        if limit is not None and seconds > limit:
            raise PassTimeoutError(f"the body of pass {self._pass.info.name!r} took longer than {limit:g} s")
        return result

    def _timed(self, func: Any, mod: Any, ctx: PassContext, results: Mapping[Any, Any]) -> tuple[Any, float]:
        start = perf_counter()
        give(func, results)
        result = check_plain(
            self._pass.transform_function(func, mod, ctx), f"the body of pass {self._pass.info.name!r}"
        )
        end = perf_counter()
        ctx.report_work(f"thread {get_native_id()}", start, end)
        return result, end - start


class _ThreadBatch:
    """A batch of calls that run in one thread."""

    def __init__(self, items: Sequence[_Item], timeout: float) -> None:
        self.items = items
        self.timeout = timeout
        self.ends = math.inf
        """When the running call exceeds the timeout. The time until the thread starts does not count."""
        self.is_stopped = False
        self.done: list[Done[Any]] = []

    def run(self) -> None:
        """Run the calls in order, each in its own context, until a stop is requested."""
        for cursor, function, arguments in self.items:
            if self.is_stopped:
                return
            start = perf_counter()
            self.ends = start + self.timeout
            result: Any = None
            failure: BaseException | None = None
            try:
                # Copy the thread's own context. In a copy of the caller's context, anyio would assume a running event
                # loop.
                result = copy_context().run(self._call, cursor, function, arguments)
            except BaseException as error:
                failure = error
            self.done.append(Done(result, failure, perf_counter() - start))

    def _call(self, cursor: RunCursor | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        STOPPED.set(self._stop_requested)
        if cursor is not None:
            RUN.set(cursor)
        return function(*arguments)

    def _stop_requested(self) -> bool:
        return self.is_stopped or perf_counter() > self.ends


async def _in_thread(items: Sequence[_Item], timeout: float | None = None) -> Sequence[Done[Any]]:
    """Run calls in a thread.

    If cancelled, wait for the running call and start no others. Request that a call stops after `timeout` seconds.
    """
    batch = _ThreadBatch(items, math.inf if timeout is None else timeout)
    async with anyio.create_task_group() as watchers:
        watchers.start_soon(_stop_when_cancelled, batch)
        await to_thread.run_sync(batch.run, limiter=NO_LIMIT.here())
        watchers.cancel_scope.cancel()
    # `to_thread.run_sync` waits for its thread even if cancelled. Deliver the cancellation here.
    await checkpoint_if_cancelled()
    return batch.done


async def _stop_when_cancelled(batch: _ThreadBatch) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        batch.is_stopped = True


def _check_threads(mod: Any) -> None:
    if not adapter_for(mod).thread_safe:
        kind = type(mod).__name__
        raise ExecutorError(f"a {kind} is not thread-safe, so threads cannot run passes on it; use executor='process'")


def default() -> Executor:
    """Return the default executor for `executor="thread"`."""
    return ThreadExecutor()
