"""`run_in_worker`: plain functions in worker processes, which are kept for the next call in the same event loop."""

import pickle
import sys
from collections.abc import AsyncGenerator, Callable
from subprocess import PIPE
from typing import Any, Final, TypeVar, TypeVarTuple

from anyio import BrokenResourceError, BrokenWorkerProcess, IncompleteRead, current_time
from anyio.abc import Process
from anyio.lowlevel import RunVar, checkpoint_if_cancelled
from anyio.streams.buffered import BufferedByteReceiveStream

from apass.concurrency.processes import worker_main as process_worker
from apass.concurrency.processes.group import end_group, kill_group, start_group
from apass.concurrency.processes.worker_main import LENGTH

__all__ = ["run_in_worker"]

R = TypeVar("R")
Args = TypeVarTuple("Args")

IDLE_SECONDS: Final = 300.0
"""A process that has had nothing to do for so long is ended when the next call is made."""


async def run_in_worker(func: Callable[[*Args], R], *args: *Args) -> R:
    """Return `func(*args)`, done by a free worker process, or by a new one. A cancellation kills it.

    The processes belong to the event loop and end with it. A new one imports the program's main module, as those of
    `multiprocessing` do. How many work at once is up to the caller.

    anyio's own pool (`anyio.to_process`) is not used: as a loop ends it kills its processes twice, at which asyncio
    on Python 3.11 may write "Unknown child process" to standard error; it loses one that is cancelled as it starts; and
    it imports the main module by its file alone, so that relative imports in it fail.

    Raises:
        BrokenWorkerProcess: if the process ended; with a text only if it could not import the main module.
        Exception: what the function raises.

    """
    request = pickle.dumps((func, *args), pickle.HIGHEST_PROTOCOL)
    await checkpoint_if_cancelled()
    pool = await _pool()
    worker = await pool.take()
    has_returned, value = await pool.ask(worker, request)
    pool.give_back(worker)
    if not has_returned:
        raise value
    result: R = value
    return result


class _Worker:
    """A process that answers one request at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.idle_since = 0.0
        """When it was last given back, by the loop's clock."""
        self._requests = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)

    async def exchange(self, request: bytes) -> tuple[bool, Any]:
        """Send a request; return whether all went well, and what came of it or what was raised."""
        await self._requests.send(LENGTH.pack(len(request)))
        await self._requests.send(request)
        (length,) = LENGTH.unpack(await self._answers.receive_exactly(LENGTH.size))
        outcome: tuple[bool, Any] = pickle.loads(await self._answers.receive_exactly(length))
        return outcome


class _Pool:
    """The worker processes of one event loop."""

    def __init__(self) -> None:
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self.keeper = self._end_with_the_loop()
        """Ends all of them when it is closed, as every event loop does with such generators at its end."""

    async def take(self) -> _Worker:
        """Return the worker that was last given back, or a new one."""
        latest = current_time() - IDLE_SECONDS
        stale = [one for one in self._idle if one.process.returncode is not None or one.idle_since < latest]
        self._idle = [one for one in self._idle if one not in stale]
        for worker in stale:
            await self._end(worker)
        return self._idle.pop() if self._idle else await self._start()

    def give_back(self, worker: _Worker) -> None:
        """Keep a worker for the next call."""
        worker.idle_since = current_time()
        self._idle.append(worker)

    async def ask(self, worker: _Worker, request: bytes) -> tuple[bool, Any]:
        """Return whether a worker did well, and what came of it; one that gives no answer is ended.

        Raises:
            BrokenWorkerProcess: if it has ended.

        """
        try:
            return await worker.exchange(request)
        except BaseException as error:
            await self._end(worker)
            if isinstance(error, BrokenResourceError | IncompleteRead):
                raise BrokenWorkerProcess from error
            raise

    async def _start(self) -> _Worker:
        _check_not_starting()
        # What else lies beside the file is not to be found under its bare name.
        command = [sys.executable, "-P", process_worker.__file__]
        worker = _Worker(await start_group(command, stdin=PIPE, stdout=PIPE, stderr=None))
        self._workers.add(worker)
        is_ready, error = await self.ask(worker, _preparation())
        if not is_ready:
            await self._end(worker)
            raise BrokenWorkerProcess("a worker process could not start") from error
        return worker

    async def _end(self, worker: _Worker) -> None:
        """Kill a worker and all that it has started."""
        await end_group(worker.process)
        self._workers.discard(worker)

    async def _end_with_the_loop(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            for worker in self._workers:
                kill_group(worker.process)
            for worker in tuple(self._workers):
                await self._end(worker)


_POOL: RunVar[_Pool] = RunVar("apass process pool")


async def _pool() -> _Pool:
    """Return the workers of the event loop that runs."""
    try:
        return _POOL.get()
    except LookupError:
        pool = _Pool()
        _POOL.set(pool)
        # Not until it is begun does the loop know of it.
        await anext(pool.keeper)
        return pool


def _check_not_starting() -> None:
    """Raise if this is a worker that still imports the main module: each would start others, without end."""
    if getattr(sys.modules["__main__"], "__file__", None) == process_worker.__file__:
        raise RuntimeError("the program's main module starts worker processes when it is imported")


def _preparation() -> bytes:
    """Return what a new worker is told first: where modules are, and which one is the main module."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return pickle.dumps((sys.path, sys.argv, spec and spec.name, getattr(main, "__file__", None)))
