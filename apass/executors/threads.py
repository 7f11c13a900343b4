"""`ThreadExecutor`: plain bodies, functions and whole passes in worker threads, which are never abandoned."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from threading import get_native_id
from time import perf_counter
from types import TracebackType
from typing import Any, Final, TypeVar, TypeVarTuple

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from apass.core.adapter import adapter_for
from apass.core.analysis_manager import give
from apass.core.context import PassContext
from apass.core.executor import STOPPED, Executor
from apass.core.run import RUN, Run, current_module_name, current_run
from apass.errors import ExecutorError, PassTimeoutError
from apass.executors.batching import Batches, Done
from apass.executors.limits import NO_LIMIT, Slots, usable_cores
from apass.executors.remote import backend_name, meet
from apass.executors.worker import plain, run_whole_pass
from apass.passes.base import Pass
from apass.util.checks import is_count
from apass.waits import waiting_for

__all__ = ["ThreadExecutor", "default"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")
Args = TypeVarTuple("Args")

_Item = tuple[Run | None, Callable[..., Any], tuple[Any, ...]]
"""A call, and where it stands if it is a body."""


class ThreadExecutor:
    """An Executor over threads of this process: for bodies that wait, or whose library lets go of Python's lock.

    Functions, module and context are given to bodies as they are. A cancelled run waits for the bodies that are at
    work, and begins no others; a long body may ask `apass.executors.check_cancelled()`. The threads are anyio's, and
    belong to the event loop.

    Parameters:
        workers: how many at once; as many as there are processors that this program may use, if left out.

    >>> anyio.run(ThreadExecutor().map, len, ["a", "bc"])
    [1, 2]

    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and not is_count(workers):
            raise ValueError(f"workers must be an int of at least 1, not {workers!r}")
        self.workers: Final = usable_cores() if workers is None else workers
        """How many threads work at once."""
        self._slots: Final = Slots(self.workers)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers,)

    def __repr__(self) -> str:
        return f"ThreadExecutor(workers={self.workers})"

    def slots(self) -> CapacityLimiter:
        """Return the slots of the executor in this event loop; each batch holds one."""
        return self._slots.here()

    def bodies(self, pass_: Any, mod: Any, ctx: PassContext) -> "_Bodies":
        """Make ready for the bodies of a function pass on `mod` (see `Executor`)."""
        _check_threads(mod)
        return _Bodies(self, pass_)

    async def optimize(self, pass_: Pass[Any], mod: Any, ctx: PassContext) -> Any:
        """Run a whole pass on `mod` in an event loop of its own, in a thread. Instruments are told nothing of it."""
        _check_threads(mod)
        meet(pass_)
        private = PassContext(
            ctx.opt_level,
            ctx.required_pass,
            ctx.disabled_pass,
            config=ctx.config,
            diag_ctx=ctx.diag_ctx,
            max_concurrency=ctx.max_concurrency,
            exit_grace=ctx.exit_grace,
        )
        return await self.call(run_whole_pass, pass_, mod, private, current_module_name(), backend_name())

    async def call(self, function: Callable[[*Args], R], *args: *Args) -> R:
        """Return `function(*args)`."""
        async with self.slots():
            done: Done[R] = (await _in_thread([(None, function, args)]))[0]
        return done.unwrap()

    async def map(self, function: Callable[[ItemT], R], items: Iterable[ItemT]) -> list[R]:
        """Return `function(item)` for each of `items`, in order. The first failure ends the others."""
        async with Batches(_in_thread, self.slots()) as batches:
            return await batches.submit_all((None, function, (item,)) for item in items)


class _Bodies:
    """The bodies of one function pass; gives the async body."""

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
        known = {one: await ctx.get(one, func) for one in self._pass.analyses}
        with waiting_for("a worker thread"):
            result, seconds = await self._batches.submit((current_run(), self._timed, (func, mod, ctx, known)))
        limit = self._pass.timeout
        if limit is not None and seconds > limit:
            raise PassTimeoutError(f"the body of pass {self._pass.info.name!r} took longer than {limit:g} s")
        return result

    def _timed(self, func: Any, mod: Any, ctx: PassContext, known: Mapping[Any, Any]) -> tuple[Any, float]:
        start = perf_counter()
        give(func, known)
        result = plain(self._pass.transform_function(func, mod, ctx), f"the body of pass {self._pass.info.name!r}")
        end = perf_counter()
        run = current_run()
        if run is not None:
            for hook in ctx.hooks.work:
                hook(run, f"thread {get_native_id()}", start, end)
        return result, end - start


class _Thread:
    """A batch of calls in a thread."""

    def __init__(self, items: Sequence[_Item]) -> None:
        self.items = items
        self.is_stopped = False
        self.done: list[Done[Any]] = []

    def run(self) -> None:
        """Make the calls one after the other, each in its contextvars, until told to stop."""
        for run, function, arguments in self.items:
            if self.is_stopped:
                return
            start = perf_counter()
            result: Any = None
            failure: BaseException | None = None
            try:
                # Of the thread's own context: that of the caller says that an event loop runs here.
                result = copy_context().run(self._call, run, function, arguments)
            except BaseException as error:
                failure = error
            self.done.append(Done(result, failure, perf_counter() - start))

    def _call(self, run: Run | None, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        STOPPED.set(self._asks_to_stop)
        if run is not None:
            RUN.set(run)
        return function(*arguments)

    def _asks_to_stop(self) -> bool:
        return self.is_stopped


async def _in_thread(items: Sequence[_Item]) -> Sequence[Done[Any]]:
    """Make calls in a thread; cancelled, wait for the one at work."""
    thread = _Thread(items)
    async with anyio.create_task_group() as watchers:
        watchers.start_soon(_tell_when_cancelled, thread)
        await to_thread.run_sync(thread.run, limiter=NO_LIMIT.here())
        watchers.cancel_scope.cancel()
    # A thread is waited for; then the cancellation goes on.
    await checkpoint_if_cancelled()
    return thread.done


async def _tell_when_cancelled(thread: _Thread) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        thread.is_stopped = True


def _check_threads(mod: Any) -> None:
    if not adapter_for(mod).thread_safe:
        kind = type(mod).__name__
        raise ExecutorError(f"a {kind} may not be worked on in a thread beside others; use executor='process'")


def default() -> Executor:
    """Return what `executor="thread"` means."""
    return ThreadExecutor()
