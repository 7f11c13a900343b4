"""`ProcessExecutor`: runs plain bodies, functions and whole passes in processes."""

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
from anyio import BrokenWorkerProcess
from anyio.lowlevel import checkpoint_if_cancelled

from apass.concurrency.limits import usable_cores
from apass.concurrency.processes.memory import resident_bytes
from apass.concurrency.processes.pool import WorkerStartError, end_idle_workers, run_in_worker
from apass.core.executor import Executor
from apass.errors import ExecutorError
from apass.executors.remote import Batch, RemoteExecutor, WorkerDiedError
from apass.executors.watchdog import Messages, Patience, Watchdog, send_tagged
from apass.executors.worker import handle
from apass.util.checks import is_count
from apass.util.text import excess_text

__all__ = ["ProcessExecutor", "default"]

R = TypeVar("R")

SMALL: Final = 1 << 15
"""Messages up to this size are sent with every request.

A larger message is sent only if the worker does not have it.
"""
CANCEL_GRACE: Final = 0.1
"""Seconds from a cancellation until the worker is killed.

The delay lets a batch that is nearly done finish, because starting a new worker costs more.
"""
METER_SECONDS: Final = 0.1
"""Interval in seconds at which the memory of a worker is read. That takes a tenth of a millisecond."""
_MAIN_ADVICE: Final = "guard the code of the program's main file, which workers import, by `if __name__ == '__main__':`"


class ProcessExecutor(RemoteExecutor):
    """An Executor over worker processes.

    Workers are started on demand, and at most `workers` run at once. They belong to the event loop: they are reused by
    its next run, and end with it.

    - A worker that dies or exceeds `timeout` is replaced, and its work is retried once. If that fails too, a
      WorkerLostError is raised.
    - A cancelled run kills the workers that do not finish within a tenth of a second.
    - A worker that uses more memory than `memory`, with the programs that it starts, is ended, on Linux. Its work fails
      with an OutOfMemoryError.
    - `async with ProcessExecutor() as executor:` ends the idle workers of the event loop at the end of the block. It is
      not required.
    - What bodies print appears on standard error, and their standard input is empty.

    Parameters:
        workers: maximum number of workers. The default is the number of CPUs available to this process.
        timeout: time limit in seconds for one body, call or module. None is no limit.
        memory: limit of the resident memory of a worker in bytes. None is no limit.

    >>> ProcessExecutor(workers=2, timeout=60)
    ProcessExecutor(workers=2, timeout=60)

    """

    def __init__(self, workers: int | None = None, timeout: float | None = None, *, memory: int | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers, timeout)
        if memory is not None and not is_count(memory):
            raise ValueError(f"memory must be a positive number of bytes or None, got {memory!r}")
        self.memory: Final = memory
        """Limit of the resident memory of a worker in bytes. None is no limit."""

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), memory=self.memory), (self.workers, self.timeout)

    def __repr__(self) -> str:
        return f"ProcessExecutor(workers={self.workers}, timeout={self.timeout})"

    async def __aenter__(self) -> Self:
        """Return the executor; choose it with `PassContext(executor=...)` as usual."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the idle worker processes of the event loop."""
        await end_idle_workers()

    async def exchange(self, request: bytes, batch: Batch) -> bytes:
        """Process a request in a worker process."""
        message = batch.message if len(batch.message) <= SMALL else None
        return await self._send(request, message, batch) or await self._send(request, batch.message, batch)

    async def _send(self, request: bytes, message: bytes | None, batch: Batch) -> bytes:
        patience = None if batch.limit is None else Patience(batch.limit)
        meter = None if self.memory is None else _MemoryMeter(self.memory)
        # A worker that keeps much memory from earlier work would end later work.
        options: Any = {} if meter is None else {"on_start": meter.start, "most_bytes": meter.limit // 2}

        async def run() -> bytes:
            if patience is None and batch.on_message is None:
                return await run_in_worker(handle, request, message, **options)
            messages = Messages(patience, batch.on_message)
            return await run_in_worker(_serve, request, message, on_message=messages.receive, **options)

        try:
            return await _with_grace(run, patience, meter)
        except WorkerStartError as error:
            raise ExecutorError(f"a worker process could not start ({error.__cause__}); {_MAIN_ADVICE}") from error
        except BrokenWorkerProcess as error:
            raise WorkerDiedError(str(error)) from None


def _serve(request: bytes, message: bytes | None, send: Callable[[bytes], object]) -> bytes:
    """Handle a request with a time limit or messages, in a worker process."""
    return handle(request, message, lambda decoded: Watchdog(decoded, send).item, send_tagged(send))


class _MemoryMeter:
    """Reads the memory of a worker at intervals.

    Parameters:
        limit: the limit in bytes.

    """

    def __init__(self, limit: int) -> None:
        self.limit: Final = limit
        self.used = 0
        """The bytes that were used last."""
        self._pid: int | None = None

    def start(self, pid: int) -> None:
        """Begin with a process."""
        self._pid = pid

    async def cancel_when_over(self, scope: anyio.CancelScope) -> None:
        """Cancel a scope when the limit is exceeded."""
        while self.used <= self.limit:
            await anyio.sleep(METER_SECONDS)
            if self._pid is not None:
                self.used = resident_bytes(self._pid)
        scope.cancel()


async def _with_grace(work: Callable[[], Awaitable[R]], patience: Patience | None, meter: _MemoryMeter | None) -> R:
    """Await `work`, and return its result.

    After a cancellation, `work` has `CANCEL_GRACE` seconds left.

    Raises:
        WorkerDiedError: if `patience` is over, or the limit of memory is exceeded.

    """
    results: list[R] = []
    failures: list[Exception] = []
    scope = anyio.CancelScope(shield=True)
    async with anyio.create_task_group() as watchers:
        with scope:
            watchers.start_soon(_limit_when_cancelled, scope)
            if patience is not None:
                watchers.start_soon(patience.cancel_when_over, scope)
            if meter is not None:
                watchers.start_soon(meter.cancel_when_over, scope)
            try:
                results.append(await work())
            except Exception as error:
                failures.append(error)
        # A cancellation that ended the watcher must not be raised here, but at the checkpoint below.
        watchers.cancel_scope.shield = True
        watchers.cancel_scope.cancel()
    await checkpoint_if_cancelled()
    if failures:
        raise failures[0]
    if not results and meter is not None and meter.used > meter.limit:
        raise WorkerDiedError(f"out of memory: {excess_text(meter.used, meter.limit)}", used_memory=meter.used)
    if not results:
        raise WorkerDiedError("the worker did not reply", is_late=True)
    return results[0]


async def _limit_when_cancelled(scope: anyio.CancelScope) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        scope.deadline = anyio.current_time() + CANCEL_GRACE


def default() -> Executor:
    """Return the default executor for `executor="process"`."""
    return ProcessExecutor()
