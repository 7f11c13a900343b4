"""`ProcessExecutor`: runs plain bodies, functions and whole passes in processes."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
from anyio import BrokenWorkerProcess
from anyio.lowlevel import checkpoint_if_cancelled

from apass.concurrency.limits import usable_cores
from apass.concurrency.processes.pool import WorkerStartError, end_idle_workers, run_in_worker
from apass.core.executor import Executor
from apass.errors import ExecutorError
from apass.executors.remote import Batch, RemoteExecutor, WorkerDiedError
from apass.executors.watchdog import Messages, Patience, Watchdog, send_tagged
from apass.executors.worker import handle

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
_MAIN_ADVICE: Final = "guard the code of the program's main file, which workers import, by `if __name__ == '__main__':`"


class ProcessExecutor(RemoteExecutor):
    """An Executor over worker processes.

    Workers are started on demand, and at most `workers` run at once. They belong to the event loop: they are reused by
    its next run, and end with it.

    - A worker that dies or exceeds `timeout` is replaced, and its work is retried once. If that fails too, a
      WorkerLostError is raised.
    - A cancelled run kills the workers that do not finish within a tenth of a second.
    - `async with ProcessExecutor() as executor:` ends the idle workers of the event loop at the end of the block. It is
      not required.
    - What bodies print appears on standard error, and their standard input is empty.

    Parameters:
        workers: maximum number of workers. The default is the number of CPUs available to this process.
        timeout: time limit in seconds for one body, call or module. None is no limit.

    >>> ProcessExecutor(workers=2, timeout=60)
    ProcessExecutor(workers=2, timeout=60)

    """

    def __init__(self, workers: int | None = None, timeout: float | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers, timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers, self.timeout)

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

        async def run() -> bytes:
            if patience is None and batch.on_message is None:
                return await run_in_worker(handle, request, message)
            messages = Messages(patience, batch.on_message)
            return await run_in_worker(_serve, request, message, on_message=messages.receive)

        try:
            return await _with_grace(run, patience)
        except WorkerStartError as error:
            raise ExecutorError(f"a worker process could not start ({error.__cause__}); {_MAIN_ADVICE}") from error
        except BrokenWorkerProcess as error:
            raise WorkerDiedError(str(error)) from None


def _serve(request: bytes, message: bytes | None, send: Callable[[bytes], object]) -> bytes:
    """Handle a request with a time limit or messages, in a worker process."""
    return handle(request, message, lambda decoded: Watchdog(decoded, send).item, send_tagged(send))


async def _with_grace(work: Callable[[], Awaitable[R]], patience: Patience | None) -> R:
    """Await `work`, and return its result.

    After a cancellation, `work` has `CANCEL_GRACE` seconds left.

    Raises:
        WorkerDiedError: if `patience` is over.

    """
    results: list[R] = []
    failures: list[Exception] = []
    scope = anyio.CancelScope(shield=True)
    async with anyio.create_task_group() as watchers:
        with scope:
            watchers.start_soon(_limit_when_cancelled, scope)
            if patience is not None:
                watchers.start_soon(patience.cancel_when_over, scope)
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
