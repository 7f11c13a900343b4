"""Native cancellation: asyncio's `Task.cancel`, which passes every cancel scope.

`asyncio.timeout` and `asyncio.TaskGroup` use it too. It is delivered once, while a cancelled scope of anyio raises at
every checkpoint. Trio has no such thing.
"""

from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from gc import get_referents
from typing import Any
from weakref import ReferenceType, ref

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

from apass.concurrency.coroutines import finish_in

__all__ = ["cancel_again", "introduce", "run_uncancelled"]

_PROBE: ContextVar[object] = ContextVar("apass_probe", default=None)
_STEPPED: ContextVar[ReferenceType[Context] | None] = ContextVar("apass_stepped", default=None)
"""The context that `introduce` was called with; weak, because a context that refers to itself lives on."""


def introduce(context: Context) -> None:
    """Make a context known to itself, in which a coroutine will be stepped by hand."""
    context.run(_STEPPED.set, ref(context))


async def run_uncancelled(
    work: Callable[[], Coroutine[Any, Any, None]], watch: Callable[[], Coroutine[Any, Any, None]]
) -> BaseException | None:
    """Run `work` to its end; return the native cancellation that arrived, or None.

    The caller still holds this cancellation: it raises the returned error, or calls `cancel_again`.

    On asyncio, `work` runs in a task of its own, in the contextvars of the caller. So a timeout within `work` is not
    taken for one of the caller.

    Parameters:
        work: must shield itself from the scopes of anyio, and must not raise.
        watch: runs beside `work`, and is cancelled when a native cancellation arrives or `work` ends.

    """
    task = _native_task()
    if task is None:
        await work()
        return None
    context = _current_context(task)
    try:
        # The shield keeps the cancellations of anyio away, so that every one that arrives here is native.
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:

                async def run() -> None:
                    await _finish(context, work())
                    group.cancel_scope.cancel()

                group.start_soon(watch)
                group.start_soon(run, name="apass hooks")
    except anyio.get_cancelled_exc_class() as error:
        return error
    return None


def cancel_again() -> None:
    """Repeat a native cancellation at the next suspension of this task.

    Call it where another error is raised in place of the cancellation. If `Task.uncancel` is called before the next
    suspension, as at the end of an `asyncio.timeout`, the cancellation is not repeated.
    """
    task = _native_task()
    requests: int = 0 if task is None else task.cancelling()
    # A cancelled scope of anyio raises at the next checkpoint by itself.
    if task is None or not requests or anyio.current_effective_deadline() == float("-inf"):
        return

    def repeat() -> None:
        if not task.done() and task.cancelling() >= requests:
            task.uncancel()
            task.cancel()

    task.get_loop().call_soon(repeat)


async def _finish(context: Context | None, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` in a context."""
    if context is None:
        return await work
    # A context cannot be entered twice: wait until the caller, whose context it is, has suspended.
    await cancel_shielded_checkpoint()
    try:
        trap = context.run(work.send, None)
    except StopIteration:
        return None
    return await finish_in(context, work, trap)


def _native_task() -> Any:
    """Return the current task of asyncio, or None on another event loop."""
    if not anyio.get_cancelled_exc_class().__module__.startswith("asyncio"):
        return None
    # On Trio, it is not needed.
    import asyncio

    return asyncio.current_task()


def _current_context(task: Any) -> Context | None:
    """Return the context that the caller runs in, not a copy; None if unknown.

    It is known if it belongs to the task, or was introduced. In the bodies that a function pass steps by hand, it is
    another one.
    """
    mark = object()
    token = _PROBE.set(mark)
    try:
        # `Task.get_context` is new in Python 3.12. The garbage collector knows the context in every version.
        contexts = [item for item in get_referents(task) if isinstance(item, Context)]
        stepped = _STEPPED.get()
        known = None if stepped is None else stepped()
        contexts += [] if known is None else [known]
        return next((context for context in contexts if context.get(_PROBE) is mark), None)
    finally:
        _PROBE.reset(token)
