"""`run_in_worker`: run plain functions in reusable worker processes."""

import pickle
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from importlib import import_module
from signal import Signals
from subprocess import PIPE
from typing import Any, Final, TypeVar

from anyio import (
    BrokenResourceError,
    BrokenWorkerProcess,
    CancelScope,
    CapacityLimiter,
    IncompleteRead,
    current_time,
    move_on_after,
)
from anyio.abc import Process
from anyio.lowlevel import RunVar, checkpoint_if_cancelled
from anyio.streams.buffered import BufferedByteReceiveStream

from apass.concurrency.processes import worker_main as process_worker
from apass.concurrency.processes.group import end_group, kill_group, start_group
from apass.concurrency.processes.memory import resident_bytes
from apass.concurrency.processes.worker_main import LENGTH, RECEIVED, TYPE_AND_LENGTH

__all__ = [
    "READY",
    "RECEIVED",
    "LostCall",
    "OnMessage",
    "WorkerStartError",
    "call_in_worker",
    "check_not_starting",
    "end_idle_workers",
    "import_in_workers",
    "imported_in_workers",
    "run_in_worker",
]

R = TypeVar("R")

IDLE_SECONDS: Final = 300.0
"""A process that has been idle for this many seconds is ended at the next call."""


READY: Final = b"ready"
"""Message to `on_message`: the worker has started, and reads a part of the request."""
_COMMAND_LINE: Final = "apass.__main__"
"""The main module of the command line; the command `apass` imports its function `main`."""

PART: Final = 1 << 20
"""Bytes of a request that are sent at once."""

OnMessage = Callable[[bytes], object]
"""Called in the event loop with each message of a worker."""


_IMPORTED: Final[list[str]] = []
"""Modules that a new worker imports."""


class WorkerStartError(BrokenWorkerProcess):
    """A worker failed to import the program's main module; the cause is its error."""


def import_in_workers(module: str) -> None:
    """Let each worker that starts from now on import a module first."""
    if module not in _IMPORTED:
        _IMPORTED.append(module)


def imported_in_workers() -> tuple[str, ...]:
    """Return the modules that each new worker imports."""
    return tuple(_IMPORTED)


async def run_in_worker(
    func: Callable[..., R],
    *args: Any,
    on_message: OnMessage | None = None,
    on_start: Callable[[int], object] | None = None,
    most_bytes: int | None = None,
) -> R:
    """Return `func(*args)`, computed in an idle worker process or a new one.

    A cancellation kills the process. The processes belong to the event loop and end with it. A new process imports the
    program's main module, as with `multiprocessing`. The caller limits the number of concurrent calls.

    If there is an `on_message`, `func` gets one more argument: a function that sends bytes to it. Before these messages
    come `READY`, at each part of the request that is sent, and `RECEIVED`, when the worker has read the request.

    `on_start` is called with the id of the process before the request is sent. An idle process that occupies more than
    `most_bytes` of memory is not used, and ends.

    Raises:
        WorkerStartError: if a new process could not import the main module.
        BrokenWorkerProcess: if the process ended. The message says how.
        Exception: any error that the function raised.

    """
    # anyio's own pool (`anyio.to_process`) has three defects that matter here:
    # - As a loop ends, it kills its processes twice; asyncio on Python 3.11 may then print "Unknown child process".
    # - It leaks a process whose start is cancelled.
    # - It imports the main module by its file alone, so relative imports in the module fail.
    request = pickle.dumps((func, on_message is not None, *args), pickle.HIGHEST_PROTOCOL)
    await checkpoint_if_cancelled()
    pool = await _pool()
    worker = await pool.take(most_bytes)
    if on_start is not None:
        on_start(worker.process.pid)
    has_returned, value = await pool.ask(worker, request, on_message or _ignore)
    pool.give_back(worker)
    if not has_returned:
        raise value
    result: R = value
    return result


@dataclass(frozen=True, slots=True)
class LostCall:
    """Why a call in a worker process has no result."""

    reason: str
    """The time limit, or how the process died."""
    is_late: bool
    """Whether the time limit ended the process, which shows nothing about the work."""


async def call_in_worker(
    func: Callable[..., R], args: tuple[object, ...], limit: float, limiter: CapacityLimiter
) -> R | LostCall:
    """Return the result of `func` in a worker process, or why there is none.

    Parameters:
        func: a function of a module, without side effects.
        args: its arguments, which are pickled.
        limit: seconds for the call.
        limiter: limit of concurrent calls.

    """
    async with limiter:
        # A first call starts the worker, which imports the module of the function. That time, like the wait for the
        # limiter, does not count against the limit.
        try:
            await run_in_worker(_import, func.__module__)
            with move_on_after(limit):
                return await run_in_worker(func, *args)
        except BrokenWorkerProcess as error:
            return LostCall(str(error), is_late=False)
    return LostCall(f"the evaluation took longer than {limit:g} s", is_late=True)


def _import(module: str) -> None:
    import_module(module)


async def end_idle_workers() -> None:
    """End the idle worker processes of the event loop."""
    # The caller may be cancelled. What it has begun to end must not be left half-ended.
    with CancelScope(shield=True):
        await (await _pool()).end_idle()


class _Worker:
    """A process that handles one request at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.idle_since = 0.0
        """When the last call ended, by the event loop's clock."""
        self._requests = process.stdin
        self._responses = BufferedByteReceiveStream(process.stdout)

    async def exchange(self, request: bytes, on_message: OnMessage) -> tuple[bool, Any]:
        """Send a request; return `(True, result)` or `(False, error)`."""
        await self._requests.send(LENGTH.pack(len(request)))
        for start in range(0, len(request), PART):
            on_message(READY)
            await self._requests.send(request[start : start + PART])
        while True:
            header = await self._responses.receive_exactly(TYPE_AND_LENGTH.size)
            is_response, length = TYPE_AND_LENGTH.unpack(header)
            message = await self._responses.receive_exactly(length)
            if is_response:
                outcome: tuple[bool, Any] = pickle.loads(message)
                return outcome
            on_message(message)


class _Pool:
    """The worker processes of one event loop."""

    def __init__(self) -> None:
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self.cleanup = self._end_with_the_loop()
        """Ends all workers when it is closed. Event loops close running async generators as they end."""

    async def take(self, most_bytes: int | None) -> _Worker:
        """Return the most recently used idle worker, or a new one."""
        oldest = current_time() - IDLE_SECONDS
        stale = [worker for worker in self._idle if worker.process.returncode is not None or worker.idle_since < oldest]
        self._idle = [worker for worker in self._idle if worker not in stale]
        if most_bytes is not None and self._idle and resident_bytes(self._idle[-1].process.pid) > most_bytes:
            stale.append(self._idle.pop())
        for worker in stale:
            await self._end(worker)
        return self._idle.pop() if self._idle else await self._start()

    def give_back(self, worker: _Worker) -> None:
        """Keep a worker for the next call."""
        worker.idle_since = current_time()
        self._idle.append(worker)

    async def ask(self, worker: _Worker, request: bytes, on_message: OnMessage) -> tuple[bool, Any]:
        """Return the outcome of a request; if there is none, end the worker.

        Raises:
            BrokenWorkerProcess: if the worker has ended.

        """
        try:
            return await worker.exchange(request, on_message)
        except BaseException as error:
            await self._end(worker)
            if isinstance(error, BrokenResourceError | IncompleteRead):
                raise BrokenWorkerProcess(f"the worker process died ({_status(worker.process)})") from error
            raise

    async def end_idle(self) -> None:
        """End the workers that no call uses."""
        idle, self._idle = self._idle, []
        for worker in idle:
            kill_group(worker.process)
        for worker in idle:
            await self._end(worker)

    async def _start(self) -> _Worker:
        check_not_starting()
        # -P keeps the folder of the file out of sys.path: its neighbours must not be importable by their bare names.
        command = [sys.executable, "-P", process_worker.__file__]
        worker = _Worker(await start_group(command, stdin=PIPE, stdout=PIPE, stderr=None))
        self._workers.add(worker)
        is_ready, error = await self.ask(worker, _first_request(), _ignore)
        if not is_ready:
            await self._end(worker)
            raise WorkerStartError("a worker process could not start") from error
        return worker

    async def _end(self, worker: _Worker) -> None:
        """Kill a worker and all processes that it started."""
        await end_group(worker.process)
        self._workers.discard(worker)

    async def _end_with_the_loop(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            # Kill all of them before waiting for the first.
            for worker in self._workers:
                kill_group(worker.process)
            for worker in tuple(self._workers):
                await self._end(worker)


def _status(process: Process) -> str:
    """Return how a process ended, such as `SIGSEGV` or `exit status 3`."""
    status = process.returncode
    if status is None or status >= 0:
        return f"exit status {status}"
    try:
        return Signals(-status).name
    except ValueError:
        return f"signal {-status}"


_POOL: RunVar[_Pool] = RunVar("apass process pool")


async def _pool() -> _Pool:
    """Return the pool of the running event loop."""
    try:
        return _POOL.get()
    except LookupError:
        pool = _Pool()
        _POOL.set(pool)
        # The event loop registers an async generator at its first iteration.
        await anext(pool.cleanup)
        return pool


def _ignore(_message: bytes) -> None:
    """Ignore a message."""


def check_not_starting() -> None:
    """Raise RuntimeError in a worker that is still importing the main module.

    Otherwise every worker would start another one, endlessly.
    """
    if getattr(sys.modules["__main__"], "__file__", None) == process_worker.__file__:
        raise RuntimeError(
            "the program's main module starts worker processes when it is imported; "
            'start them under `if __name__ == "__main__":`'
        )


def _first_request() -> bytes:
    """Return the first request to a new worker: import path, main module, modules."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name, file = spec and spec.name, getattr(main, "__file__", None)
    # The command line defines nothing that a worker needs, and takes long to import.
    if name == _COMMAND_LINE or getattr(getattr(main, "main", None), "__module__", None) == _COMMAND_LINE:
        name = file = None
    return pickle.dumps((sys.path, sys.argv, name, file, imported_in_workers()))
