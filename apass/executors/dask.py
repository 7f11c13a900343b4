"""`DaskExecutor`: runs plain bodies, functions and whole passes on a Dask cluster."""

import socket
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, cast
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from apass.concurrency.limits import NO_LIMIT, usable_cores
from apass.errors import ExecutorError, MissingExtraError
from apass.executors.remote import Batch, RemoteExecutor, WorkerDiedError
from apass.executors.watchdog import TICK, ItemReports, Messages, Patience, send_tagged
from apass.executors.worker import handle, stop

try:
    import dask.config as dask_config
    import distributed
except ImportError as _error:
    raise MissingExtraError(f"a Dask cluster needs distributed ({_error}): pip install 'apass[dask]'") from _error

__all__ = ["DaskExecutor", "without_profiler"]

_dask: Any = distributed
_settings: Any = dask_config

REPORT_SECONDS: Final = 5.0
"""Seconds to wait until the scheduler has a worker's report of an item."""
START_SECONDS: Final = 10.0
"""Seconds to wait for a scheduler's reply, and for the first worker of a cluster."""
LOST_SECONDS: Final = 60.0
"""Seconds that queued work waits for a cluster without workers.

The workers may be restarting. After this time the work fails.
"""
COUNT_SECONDS: Final = 1.0
"""Interval at which the workers of a cluster are counted, because workers come and go."""
SMALL: Final = 1 << 12
"""Messages up to this size are sent with each batch.

A larger message is sent to all workers once.
"""
_SCHEDULER: Final = {"allowed_failures": 1, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Options of a local scheduler.

A scheduler serves metrics even without a dashboard. Use a free port: another cluster may use the default port.
"""

_PROFILER_HANGS: Final = sys.version_info < (3, 11, 9)
"""Whether Dask's profiler may stop a process forever: CPython's issue 106883."""


class DaskExecutor(RemoteExecutor):
    """An Executor over a Dask cluster, for `async with` on asyncio or trio.

    The client runs in its own threads. What a run needs is sent to the workers once, and batches refer to it. If a
    worker dies, another worker repeats its batch. Dask retries a batch as often as `allowed-failures` permits. After
    that, a WorkerLostError is raised.

    A cancelled run withdraws the queued work. Running bodies end at their next `check_cancelled()`, whole passes at
    their next await. The workers need apass, the libraries that the passes use, and the modules that define the passes.

    Parameters:
        cluster: a synchronous `distributed.Client`, which stays open; the address of a scheduler, such as
            `"tcp://host:8786"`; None for workers on this machine, which end with the block.
        timeout: time limit in seconds for one body, call or module. A worker that exceeds it is restarted. None is no
            limit.
        workers: number of workers on this machine. The default is the number of CPUs available to this process.

    Raises:
        ExecutorError: on entry, if no scheduler is at the address, or the cluster has no workers.

    """

    def __init__(self, cluster: Any = None, *, timeout: float | None = None, workers: int | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers, timeout)
        if isinstance(cluster, _dask.Client) and cluster.asynchronous:
            raise ExecutorError("DaskExecutor requires a Client with asynchronous=False, got an asynchronous one")
        if cluster is not None and not isinstance(cluster, str | _dask.Client):
            raise TypeError(f"cluster must be a distributed.Client, an address or None, got {cluster!r}")
        self._cluster: Final[Any] = cluster
        self._open: _Connection | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # A pass that is sent to a worker runs its nested bodies there, so the executor becomes 'inline'.
        return str, ("inline",)

    def __repr__(self) -> str:
        return f"DaskExecutor({self._cluster!r})"

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ExecutorError("DaskExecutor is already open; create another one, or share this one in its block")
        with anyio.CancelScope(shield=True):
            self._open = await to_thread.run_sync(_connect, self._cluster, self.workers)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        connection, self._open = self._connection, None
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(connection.close)

    @property
    def _connection(self) -> "_Connection":
        if self._open is None:
            raise ExecutorError("DaskExecutor is not open; use it within `async with DaskExecutor(...) as executor:`")
        return self._open

    def slots(self) -> CapacityLimiter:
        """Return the slots of the cluster: one for each thread of its workers."""
        return self._connection.slots

    def ends_late_workers(self) -> bool:
        """Return False: a worker of a cluster may run other clients' work too."""
        return False

    async def exchange(self, request: bytes, batch: Batch) -> bytes:
        """Handle a request in a worker of the cluster."""
        connection = self._connection
        # A batch may wait in a queue behind the work of other clients, so its start has no limit.
        patience = None if batch.limit is None else Patience(batch.limit, start=float("inf"))
        token = current_token()
        messages = None
        if patience is not None or batch.on_message is not None:
            messages = Messages(patience, None if batch.on_message is None else _InLoop(batch.on_message, token))
        future = await _in_thread(connection.submit, request, batch, messages)
        done = _WakeUp(token)
        future.add_done_callback(done)
        try:
            if await connection.wait(done.event, patience):
                return cast("bytes", await _in_thread(connection.result, future, batch))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await _in_thread(connection.cancel, future, batch)
            raise
        await _in_thread(connection.restart, future)
        raise WorkerDiedError(f"it took longer than {batch.limit:g} s", is_late=True)


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


class _Connection:
    """An open client. All methods except `wait` block, and must be called in a thread."""

    def __init__(self, client: Any, cluster: Any, *, is_own: bool) -> None:
        self._client = client
        self._cluster = cluster
        self._workers = 0 if cluster is None else len(cluster.worker_spec)
        self._is_own = is_own
        self._lock = Lock()
        self._scattered: dict[str, Any] = {}
        self._stopped: set[str] = set()
        self._counted = perf_counter()
        self._is_empty = False
        self._topic = f"apass-{uuid4().hex}"
        # Batches without a limit and without messages have no entry. Entries vanish with the calls that wait.
        self._messages: WeakValueDictionary[str, Messages] = WeakValueDictionary()
        client.subscribe_topic(self._topic, self._on_event)
        self.slots = CapacityLimiter(self.count())

    async def wait(self, done: anyio.Event, patience: Patience | None) -> bool:
        """Wait for a batch, and count the workers at intervals. Runs in the event loop.

        Return whether the batch is done; otherwise the patience is over.

        Raises:
            WorkerDiedError: if the cluster has had no worker for `LOST_SECONDS`.

        """
        last_seen = perf_counter()
        while not done.is_set():
            with anyio.move_on_after(COUNT_SECONDS if patience is None else TICK):
                await done.wait()
            if patience is not None and patience.tick() and not done.is_set():
                return False
            if perf_counter() - self._counted > COUNT_SECONDS:
                self.slots.total_tokens = await _in_thread(self.count)
            last_seen = last_seen if self._is_empty else perf_counter()
            if perf_counter() - last_seen > LOST_SECONDS and not done.is_set():
                message = f"the cluster has had no worker for {LOST_SECONDS:g} s"
                raise WorkerDiedError(message, is_final=True)
        return True

    def count(self) -> int:
        """Return the total number of threads of the workers, at least 1."""
        self._counted = perf_counter()
        threads: dict[str, int] = self._client.nthreads()
        self._is_empty = not threads
        if self._cluster is not None and len(threads) < self._workers:
            # On a busy machine, a LocalCluster gives up a worker that restarts slowly. `scale` starts a new one.
            self._cluster.scale(self._workers)
        return max(1, sum(threads.values()))

    def submit(self, request: bytes, batch: Batch, messages: Messages | None) -> Any:
        """Submit a batch, and return the future of its reply.

        The worker reports to `messages`.
        """
        message = batch.message if len(batch.message) <= SMALL else self._scatter(batch)
        key = f"apass-{uuid4().hex}"
        if messages is None:
            return self._client.submit(handle, request, message, pure=False, key=key)
        self._messages[key] = messages
        return self._client.submit(_serve, request, message, self._topic, key, pure=False, key=key)

    def _on_event(self, event: tuple[float, tuple[str, bytes]]) -> None:
        """Handle a report of a worker, in a thread of the client."""
        key, message = event[1]
        messages = self._messages.get(key)
        if messages is not None:
            messages.receive(message)

    def _scatter(self, batch: Batch) -> Any:
        """Send a batch's message to all workers, once."""
        with self._lock:
            if batch.key not in self._scattered:
                # Broadcast it: a worker that dies may hold the only copy.
                self._scattered[batch.key] = self._client.scatter(batch.message, broadcast=True, hash=False)
            return self._scattered[batch.key]

    def result(self, future: Any, batch: Batch) -> bytes:
        """Return the reply of a future.

        Raises:
            WorkerDiedError: if the workers of the batch died.

        """
        try:
            reply: bytes = future.result()
        except _dask.scheduler.KilledWorker as error:
            raise WorkerDiedError(f"the workers died: {error}", is_final=True) from None
        except _dask.client.FutureCancelledError:
            with self._lock:
                # All workers that held the message died, so the message is lost.
                self._scattered.pop(batch.key, None)
            raise WorkerDiedError("all workers that held the message died") from None
        return reply

    def cancel(self, future: Any, batch: Batch) -> None:
        """Withdraw a batch, and request its workers to stop."""
        future.cancel()
        with self._lock:
            is_stopping = batch.key in self._stopped
            self._stopped.add(batch.key)
            self._scattered.pop(batch.key, None)
        if not is_stopping:
            self._client.run(_stop, batch.key, wait=False, on_error="ignore")

    def restart(self, future: Any) -> None:
        """Restart the worker that does not return a batch, and withdraw the batch."""
        hanging = [address for address, keys in self._client.processing().items() if future.key in keys]
        future.cancel()
        if hanging:
            # If a worker does not restart in time, the work continues with the others.
            with suppress(TimeoutError):
                self._client.restart_workers(hanging, timeout=START_SECONDS, raise_for_error=False)

    def close(self) -> None:
        """Close the connection, with the client and the cluster that it created."""
        self._scattered.clear()
        self._client.unsubscribe_topic(self._topic)
        if self._is_own:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _serve(request: bytes, message: bytes, topic: str, key: str) -> bytes:
    """Handle a request with a time limit or messages, in a worker; report its items."""
    worker = _dask.get_worker()

    def send(report: bytes) -> None:
        # `worker.log_event` sends later, and a body that stops the process at once would not be reported as begun.
        # Without the report, the item has no limit, which is better than its failure.
        with suppress(OSError, TimeoutError):
            log_event = worker.scheduler.log_event
            _dask.utils.sync(worker.loop, log_event, topic=topic, msg=(key, report), callback_timeout=REPORT_SECONDS)

    return handle(request, message, lambda decoded: ItemReports(decoded, send).item, send_tagged(send))


async def _stop(key: str) -> None:
    """Call `stop` in the event loop of a worker.

    `Client.run` supports `wait=False` for async functions only.
    """
    stop(key)


def _connect(cluster: Any, workers: int) -> _Connection:
    if isinstance(cluster, _dask.Client):
        return _connection_to(cluster, None, is_own=False)
    if isinstance(cluster, str):
        _check_scheduler(cluster)
        return _connection_to(_dask.Client(cluster, set_as_default=False), None, is_own=True)
    with without_profiler():
        local_cluster = _dask.LocalCluster(n_workers=workers, threads_per_worker=1, scheduler_kwargs=_SCHEDULER)
    return _connection_to(_dask.Client(local_cluster, set_as_default=False), local_cluster, is_own=True)


def without_profiler() -> AbstractContextManager[None]:
    """Return a context manager in which new clusters have no profiler.

    With a Python in which the profiler cannot stop a worker forever, they have one. Before Python 3.11.9,
    `sys._current_frames` may deadlock with a thread that starts. Dask's profiler calls it a hundred times a second, and
    a worker of `apass serve` starts threads.
    """
    settings: dict[str, bool] = {"distributed.worker.profile.enabled": False} if _PROFILER_HANGS else {}
    manager: AbstractContextManager[None] = _settings.set(settings)
    return manager


def _check_scheduler(address: str) -> None:
    """Check that a scheduler replies at the address.

    A client without a scheduler would wait longer, and take longer still to close.
    """
    start = perf_counter()
    try:
        # Dask's connections require asyncio, even if the passes run on trio.
        anyio.run(_check_reply, address, backend="asyncio")
    except (OSError, ValueError) as error:
        reason = _failure_reason(address, error, is_late=perf_counter() - start >= START_SECONDS)
        raise ExecutorError(f"no Dask scheduler replied at {address}; check that it is running: {reason}") from error


def _failure_reason(address: str, error: Exception, *, is_late: bool) -> str:
    """Return the reason why no scheduler replied.

    If Dask gives no reason, because its last attempt was cut short, try to connect with a plain socket.
    """
    first: BaseException = error
    while isinstance(first.__cause__, OSError):
        first = first.__cause__
    if first is not error and str(first):
        return f"{error} ({first})"
    try:
        host_port: tuple[str, int] = _dask.comm.get_address_host_port(address)
        socket.create_connection(host_port, timeout=1).close()
    except OSError as refusal:
        return f"{error} ({refusal})"
    except (ValueError, NotImplementedError):
        return str(error)
    return _no_reply_message() if is_late else str(error)


def _no_reply_message() -> str:
    return f"the server at this address did not reply within {START_SECONDS:g} s"


async def _check_reply(address: str) -> None:
    # If the server is not a scheduler, Dask waits longer than its timeout.
    with anyio.move_on_after(START_SECONDS + 1):
        (await _dask.comm.connect(address, timeout=START_SECONDS)).abort()
        return
    raise TimeoutError(_no_reply_message())


def _connection_to(client: Any, cluster: Any, *, is_own: bool) -> _Connection:
    try:
        client.wait_for_workers(1, timeout=START_SECONDS)
    except TimeoutError:
        message = f"the Dask cluster at {client.scheduler.address} has no workers; start some"
        if is_own:
            client.close()
        raise ExecutorError(message) from None
    return _Connection(client, cluster, is_own=is_own)


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await to_thread.run_sync(partial(function, *args), limiter=NO_LIMIT.here())
