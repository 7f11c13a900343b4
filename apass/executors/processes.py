"""`ProcessExecutor`: plain bodies, functions and whole passes in worker processes, which may be killed."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import anyio
from anyio import BrokenWorkerProcess
from anyio.lowlevel import checkpoint_if_cancelled

from apass.concurrency.processes.pool import run_in_worker
from apass.core.executor import Executor
from apass.errors import ExecutorError
from apass.executors.limits import usable_cores
from apass.executors.remote import Errand, RemoteExecutor, WorkerDiedError
from apass.executors.watchdog import end_when_late
from apass.executors.worker import handle

__all__ = ["ProcessExecutor", "default"]

R = TypeVar("R")

SMALL: Final = 1 << 15
"""Bytes that are sent along, rather than asking first whether the worker has them."""
CANCEL_GRACE: Final = 0.1
"""Seconds that a batch may go on after a cancellation before its worker is killed: a new one costs more."""
_MAIN_ADVICE: Final = "it imports the program's main file, which must do its work below `if __name__ == '__main__':`"
ANSWER_SECONDS: Final = 60.0
"""How much longer than its time a worker may take to start, to read its work and to answer."""


class ProcessExecutor(RemoteExecutor):
    """An Executor over worker processes, started as they are needed, at most `workers` at work at once.

    The processes belong to the event loop: they are kept for the next run in it, and end with it. A worker that dies is
    replaced, and so is one that takes longer than `timeout` for a body, a call or a module: its work is tried once
    more, and then there is a WorkerLostError. A cancelled run kills the workers that do not end within a tenth of a
    second. What bodies print goes nowhere, and what they read from standard input is empty.

    Parameters:
        workers: how many; as many as there are processors that this program may use, if left out.
        timeout: seconds for one body, call or module; None is no limit.

    >>> ProcessExecutor(workers=2, timeout=60)
    ProcessExecutor(workers=2, timeout=60)

    """

    def __init__(self, workers: int | None = None, timeout: float | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers, timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.workers, self.timeout)

    def __repr__(self) -> str:
        return f"ProcessExecutor(workers={self.workers}, timeout={self.timeout})"

    async def exchange(self, request: bytes, errand: Errand) -> bytes:
        """Have a process do it."""
        with anyio.move_on_after(None if errand.limit is None else errand.limit * 2 + ANSWER_SECONDS):
            parcel = errand.parcel if len(errand.parcel) <= SMALL else None
            return await self._send(request, parcel) or await self._send(request, errand.parcel)
        raise WorkerDiedError("its worker gave no answer", is_late=True)

    async def _send(self, request: bytes, parcel: bytes | None) -> bytes:
        async def run() -> bytes:
            return await run_in_worker(_serve, request, parcel)

        try:
            return await _with_grace(run)
        except BrokenWorkerProcess as error:
            # Only one that could not import the main module has words of its own.
            if error.args:
                raise ExecutorError(f"a worker process could not start ({error.__cause__}); {_MAIN_ADVICE}") from error
            raise WorkerDiedError("its process died") from None


def _serve(request: bytes, parcel: bytes | None) -> bytes:
    """Do the work, in a worker process."""
    return handle(request, parcel, end_when_late)


async def _with_grace(work: Callable[[], Awaitable[R]]) -> R:
    """Return what `work` returns; after a cancellation, it has `CANCEL_GRACE` seconds to end."""
    results: list[R] = []
    failures: list[Exception] = []
    scope = anyio.CancelScope(shield=True)
    async with anyio.create_task_group() as watchers:
        with scope:
            watchers.start_soon(_limit_when_cancelled, scope)
            try:
                results.append(await work())
            except Exception as error:
                failures.append(error)
        # A cancellation that ended the watcher goes on below.
        watchers.cancel_scope.shield = True
        watchers.cancel_scope.cancel()
    await checkpoint_if_cancelled()
    if failures:
        raise failures[0]
    return results[0]


async def _limit_when_cancelled(scope: anyio.CancelScope) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        scope.deadline = anyio.current_time() + CANCEL_GRACE


def default() -> Executor:
    """Return what `executor="process"` means."""
    return ProcessExecutor()
