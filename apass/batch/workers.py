"""`ModuleWorkers`: tasks that run a pass on module after module, started lazily."""

from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint_if_cancelled

from apass.batch.source import ModuleSource
from apass.concurrency.coroutines import finish_in
from apass.concurrency.native_cancellation import introduce
from apass.concurrency.scheduler import LoopScheduler
from apass.errors import PassCancelledError

__all__ = ["ModuleWorkers"]

Work = Callable[[Any, Any], Coroutine[Any, Any, Exception | None]]
"""Called as `work(name, mod)`; returns the error of the pass, or None."""


class ModuleWorkers:
    """Workers that take modules from a source while slots are free.

    One worker runs modules one after the other. If the pass suspends, another worker is woken or started, so that at
    any time one worker is about to look for a module. Passes that never suspend thus cost one task, and passes that
    wait, wait together. There are at most as many workers as slots.

    Each module has its own copy of the contextvars of the source: it sees what the source has set, and no module sees
    what another one sets. Between modules, the event loop runs whenever a time slice has expired.

    Parameters:
        source: where modules come from. It is iterated over only while a slot is free.
        limit: the number of slots; None for no limit. A module has a slot until `release` is called.
        scheduler: the time slices.
        work: runs the pass on one module. It must not raise an Exception.
        grace: seconds for the source to close.

    """

    def __init__(
        self, source: ModuleSource, limit: int | None, scheduler: LoopScheduler, work: Work, grace: float
    ) -> None:
        self.ended: bool = False
        """Whether the source has no further modules."""
        self.source_error: Exception | None = None
        """The error of the source that ended it."""
        self.taken: int = 0
        """How many modules the source has returned."""
        self.stopped: bool = False
        """Whether no further module may start."""
        self._source = source
        self._items = source.items
        self._scheduler = scheduler
        self._work = work
        self._grace = grace
        self._free: float = float("inf") if limit is None else limit
        # Modules of an async source that no worker has taken, each with the contextvars to run in.
        self._arrived: deque[tuple[Any, Any, Context]] = deque()
        self._ready = 0
        """How many workers will look for a module without being woken."""
        self._idle: list[anyio.Event] = []
        self._freed: anyio.Event | None = None
        """Set when a slot is free, if the source waits for one."""
        self._on_end: Callable[[], None] = _do_nothing
        self._context: Final = copy_context()
        """The contextvars of a source that is not async."""

    def start(self, group: TaskGroup, on_end: Callable[[], None]) -> None:
        """Start to run modules in tasks of `group`.

        Parameters:
            group: the task group.
            on_end: called when the source has ended.

        """
        self._group = group
        self._on_end = on_end
        if self._source.is_async:
            group.start_soon(self._receive)
        else:
            self._recruit()

    def release(self, slots: int = 1) -> None:
        """Free slots, so that further modules may start."""
        self._free += slots
        if self._freed is not None:
            self._freed.set()
        elif not self._ready:
            self._recruit()

    async def _receive(self) -> None:
        """Queue the modules of an async source, which only this task iterates over."""
        scheduler = self._scheduler
        try:
            while True:
                while self._free < 1:
                    self._freed = anyio.Event()
                    await self._freed.wait()
                    self._freed = None
                self._free -= 1
                name, mod = await self._source.receive()
                self.taken += 1
                self._arrived.append((name, mod, copy_context()))
                del mod
                if not self._ready:
                    self._recruit()
                if perf_counter() > scheduler.slice_ends:
                    await scheduler.yield_to_loop()
        except StopAsyncIteration:
            pass
        except Exception as error:
            self.source_error = error
        finally:
            await self._source.close(self._grace)
        self._end()

    def _take(self) -> tuple[Any, Any, Context] | None:
        """Return the next module and its contextvars; None if there is none now."""
        if self._source.is_async:
            return self._arrived.popleft() if self._arrived else None
        if self._free < 1 or self.ended:
            return None
        try:
            name, mod = self._context.run(next, self._items)
        except StopIteration:
            self._end()
            return None
        except Exception as error:
            self.source_error = error
            self._end()
            return None
        self._free -= 1
        self.taken += 1
        return name, mod, self._context.copy()

    def _end(self) -> None:
        self.ended = True
        self._on_end()

    def _recruit(self) -> None:
        """Wake or start a worker, if a module may be there for it."""
        may_take = self._arrived if self._source.is_async else self._free >= 1 and not self.ended
        if not may_take or self.stopped:
            return
        self._ready += 1
        if self._idle:
            self._idle.pop().set()
        else:
            self._group.start_soon(self._run_worker, name="apass worker")

    async def _run_worker(self) -> None:
        await checkpoint_if_cancelled()
        # In a call of its own, so that an idle worker holds no module.
        while await self._run_modules():
            idle = anyio.Event()
            self._idle.append(idle)
            await idle.wait()

    async def _run_modules(self) -> bool:
        """Run modules until there is none; return whether this task may run more later."""
        scheduler, work = self._scheduler, self._work
        while not self.stopped and (item := self._take()) is not None:
            name, mod, context = item
            introduce(context)
            body = work(name, mod)
            # Only `Context.run` can give a coroutine another context than that of its task.
            try:
                trap = context.run(body.send, None)
            except StopIteration as stop:
                error = stop.value
            else:
                self._ready -= 1
                if not self._ready:
                    self._recruit()
                error = await finish_in(context, body, trap)
                self._ready += 1
            if error is not None:
                # The pass may have raised it in place of a cancellation.
                await checkpoint_if_cancelled()
                # asyncio counts the cancellations of a task, and a timeout of the next module would see them.
                if isinstance(error, PassCancelledError):
                    break
            if perf_counter() > scheduler.slice_ends:
                await scheduler.yield_to_loop()
        else:
            self._ready -= 1
            return not self.stopped
        self._ready -= 1
        if not self._ready:
            self._recruit()
        return False


def _do_nothing() -> None:
    """Do nothing when the source ends."""
