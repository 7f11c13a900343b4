"""`ThreadBatches`: runs short plain functions in worker threads, in batches."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

__all__ = ["ThreadBatches"]

R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Call:
    """A function that a task waits for."""

    work: Callable[[], Any]
    """The function."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set after the call."""
    result: Any = None
    """The result, if there is no error."""
    error: BaseException | None = None
    """The error that the function raised."""

    def run(self) -> None:
        """Call the function, in a worker thread."""
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error


class ThreadBatches:
    """Runs plain functions in worker threads, together with others that wait.

    To hand a function to a thread and to return takes longer than to read a small file, because both threads wait for
    Python's global lock. While a thread is busy, functions are queued, and the next thread runs several of them.

    Parameters:
        group: the task group of the tasks that hand out the functions.
        threads: maximum number of threads at a time.
        size: maximum number of functions of a batch.

    """

    def __init__(self, group: TaskGroup, threads: int, size: int) -> None:
        self._group: Final = group
        self._threads: Final = threads
        self._size: Final = size
        self._queue: Final[deque[_Call]] = deque()
        self._drivers = 0

    async def run(self, work: Callable[[], R]) -> R:
        """Return the result of `work`, which is called in a worker thread.

        If the caller is cancelled, a function that has started is completed first.
        """
        call = _Call(work)
        self._queue.append(call)
        if self._drivers < self._threads:
            self._drivers += 1
            self._group.start_soon(self._drive)
        try:
            await call.ended.wait()
        except anyio.get_cancelled_exc_class():
            if call in self._queue:
                self._queue.remove(call)
            else:
                with anyio.CancelScope(shield=True):
                    await call.ended.wait()
            raise
        if call.error is not None:
            raise call.error
        return cast("R", call.result)

    async def _drive(self) -> None:
        try:
            while self._queue:
                batch = [self._queue.popleft() for _ in range(min(self._size, len(self._queue)))]
                # Once taken, a batch is completed: its callers wait for it even if they are cancelled.
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(_run_all, batch)
                for call in batch:
                    call.ended.set()
        finally:
            self._drivers -= 1


def _run_all(batch: list[_Call]) -> None:
    for call in batch:
        call.run()
