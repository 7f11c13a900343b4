"""`DaskExecutor`: runs plain bodies, functions and whole passes on a Dask cluster."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, cast

import anyio
from anyio import from_thread
from anyio.lowlevel import EventLoopToken, current_token

from apass.concurrency.limits import usable_cores
from apass.concurrency.loop_resource import LoopResource
from apass.core.executor import DASK
from apass.errors import ExecutorError
from apass.executors.dask_connection import Connection, DaskTask, connect, distributed, in_thread
from apass.executors.remote import Batch, RemoteExecutor, WorkerDiedError
from apass.executors.watchdog import TICK, Patience

__all__ = ["DaskExecutor", "default"]

LOST_SECONDS: Final = 60.0
"""Seconds that work waits for a cluster without a scheduler or without workers.

They may be restarting. After this time the work fails.
"""
COUNT_SECONDS: Final = 1.0
"""Interval at which the workers of a cluster are counted, because workers come and go."""
RECONNECT_SECONDS: Final = 0.2
"""Interval at which work is sent to a scheduler that is lost."""


class DaskExecutor(RemoteExecutor):
    """An Executor over a Dask cluster, on asyncio or trio.

    It connects when it is first used, and the connection ends with the event loop. With `async with`, it connects at
    the beginning of the block, and the connection ends with the block.

    The client runs in its own threads. What a run needs is sent to the workers once, and batches refer to it.

    - If a worker dies while it runs a task, the work is sent to another worker once. If that dies, too, a
      WorkerLostError is raised. A task that has not begun does not count.
    - If the scheduler is restarted, the client connects again, and the work is sent again. That does not count either.
      Without a scheduler, or without workers, a WorkerLostError is raised after `LOST_SECONDS`.

    A cancelled run withdraws the queued work. Running bodies end at their next `check_cancelled()`, whole passes at
    their next await. The scheduler and the workers need the same versions of apass and Python; the workers also need
    the libraries that the passes use, and the modules that define the passes.

    Parameters:
        cluster: the address of a scheduler, `"dask://HOST:PORT"`, which is connected as Dask's configuration says (TLS,
            for example); a synchronous `distributed.Client`, which stays open; None for workers on this machine, which
            end with the connection.
        timeout: time limit in seconds for one body, call or module. A worker that exceeds it is restarted. None is no
            limit.
        workers: number of workers on this machine. The default is the number of CPUs available to this process.

    Raises:
        ExecutorError: when it connects, if no scheduler is at the address, the cluster has no workers, or its versions
            are others.

    """

    def __init__(self, cluster: Any = None, *, timeout: float | None = None, workers: int | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers, timeout)
        if isinstance(cluster, distributed.Client) and cluster.asynchronous:
            raise ExecutorError("DaskExecutor requires a Client with asynchronous=False, got an asynchronous one")
        if cluster is not None and not isinstance(cluster, str | distributed.Client):
            raise TypeError(f"cluster must be a distributed.Client, an address or None, got {cluster!r}")
        if isinstance(cluster, str) and not cluster.startswith(DASK):
            name = cluster.rpartition("://")[2] or "HOST:PORT"
            raise ExecutorError(
                f"{cluster!r} is no address of a Dask cluster; write {DASK}{name}. The configuration of Dask, "
                "distributed.comm.default-scheme, decides on TCP or TLS"
            )
        self._cluster: Final[Any] = cluster
        self._connection: Final = LoopResource(partial(connect, cluster, self.workers), Connection.close)

    def __reduce__(self) -> tuple[Any, ...]:
        # A pass that is sent to a worker runs its nested bodies there, so the executor becomes 'inline'.
        return str, ("inline",)

    def __repr__(self) -> str:
        return f"DaskExecutor({self._cluster!r})"

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.close()

    async def connect(self) -> None:
        """Connect to the cluster, unless that is done."""
        await self._connected()

    def ends_late_workers(self) -> bool:
        """Return False: a worker of a cluster may run other clients' work too."""
        return False

    def delivers_messages(self) -> bool:
        """Return False: messages travel by the scheduler, which may be restarted."""
        return False

    async def exchange(self, request: bytes, batch: Batch) -> bytes:
        """Handle a request in a worker of the cluster."""
        connection = await self._connected()
        # A batch may wait in a queue behind the work of other clients, so its start has no limit.
        patience = None if batch.limit is None else Patience(batch.limit, start=float("inf"))
        token = current_token()
        task = DaskTask(patience, None if batch.on_message is None else _InLoop(batch.on_message, token))
        wait = _Wait(connection, self.slots(), patience)
        # Work that is shorter than the interval would never count the workers.
        await wait.check()
        while (future := await in_thread(connection.submit, request, batch, task)) is None:
            await anyio.sleep(RECONNECT_SECONDS)
            await wait.check()
        done = _WakeUp(token)
        future.add_done_callback(done)
        try:
            if await wait.until(done.event):
                return cast("bytes", await in_thread(connection.result, future, batch, task))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await in_thread(connection.cancel, future, batch)
            raise
        await in_thread(connection.restart, future)
        raise WorkerDiedError(f"it took longer than {batch.limit:g} s", is_late=True)

    async def _connected(self) -> Connection:
        """Return the connection, which has as many slots as threads."""
        connection = await self._connection.get()
        self.slots().total_tokens = connection.threads
        return connection


def default(address: str | None = None) -> DaskExecutor:
    """Return the executor for `"dask://HOST:PORT"`, or for `"dask"`, without address."""
    return DaskExecutor(address)


class _WakeUp:
    """Wakes the task that waits for a future, from a thread of the client."""

    def __init__(self, token: EventLoopToken) -> None:
        self.event = anyio.Event()
        self._token = token

    def __call__(self, _future: Any) -> None:
        # The run, and even the event loop, may have ended by now.
        with suppress(anyio.RunFinishedError):
            from_thread.run_sync(self.event.set, token=self._token)


class _InLoop:
    """Calls a function in the event loop, from a thread of the client."""

    def __init__(self, function: Callable[[bytes], object], token: EventLoopToken) -> None:
        self._function = function
        self._token = token

    def __call__(self, message: bytes) -> None:
        # The run, and even the event loop, may have ended by now.
        with suppress(anyio.RunFinishedError):
            from_thread.run_sync(self._function, message, token=self._token)


class _Wait:
    """The wait of a batch for its reply, which ends if the cluster is lost.

    Parameters:
        connection: the connection.
        slots: the slots of the executor, which follow the number of the workers.
        patience: the patience with its worker; None without a limit.

    """

    def __init__(self, connection: Connection, slots: anyio.CapacityLimiter, patience: Patience | None) -> None:
        self._connection = connection
        self._slots = slots
        self._patience = patience
        self._last_seen = perf_counter()

    async def until(self, done: anyio.Event) -> bool:
        """Wait for the reply; return False if the patience is over.

        Raises:
            WorkerDiedError: if the cluster has had no worker for `LOST_SECONDS`.

        """
        while not done.is_set():
            with anyio.move_on_after(COUNT_SECONDS if self._patience is None else TICK):
                await done.wait()
            if self._patience is not None and self._patience.tick() and not done.is_set():
                return False
            if not done.is_set():
                await self.check()
        return True

    async def check(self) -> None:
        """Count the workers if that is due.

        Raises:
            WorkerDiedError: if the cluster has had no worker for `LOST_SECONDS`.

        """
        if perf_counter() - self._connection.counted > COUNT_SECONDS:
            await in_thread(self._connection.count)
            self._slots.total_tokens = self._connection.threads
        if not self._connection.is_empty:
            self._last_seen = perf_counter()
        elif perf_counter() - self._last_seen > LOST_SECONDS:
            reason = f"the cluster has had no {self._connection.lack()} for {LOST_SECONDS:g} s"
            raise WorkerDiedError(reason, is_final=True, is_innocent=True)
