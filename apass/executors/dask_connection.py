"""`Connection`: a client of a Dask cluster, which connects again."""

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread

from apass.concurrency.limits import NO_LIMIT
from apass.core.executor import DASK
from apass.errors import ExecutorError, MissingExtraError
from apass.executors.dask_tasks import TASK_BEGUN, VERSIONS, LossPlugin, check_versions, run_task, stop_run
from apass.executors.remote import Batch, WorkerDiedError
from apass.executors.watchdog import Messages, Patience

try:
    import distributed as _distributed
except ImportError as _error:
    raise MissingExtraError(f"a Dask cluster needs distributed ({_error}): pip install 'apass[dask]'") from _error

__all__ = ["Connection", "DaskTask", "connect", "distributed", "in_thread"]

distributed: Any = _distributed
"""The library, which has no types."""

START_SECONDS: Final = 10.0
"""Seconds to wait for a scheduler's reply, and for the first worker of a cluster."""
AGAIN_SECONDS: Final = 1.0
"""Seconds to wait for the reply of a scheduler that was lost."""
SMALL: Final = 1 << 12
"""Messages up to this size are sent with each batch.

A larger message is sent to all workers once.
"""
_SCHEDULER: Final = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Options of a local scheduler.

A scheduler serves metrics even without a dashboard. Use a free port: another cluster may use the default port.
"""


class DaskTask:
    """A batch that the cluster has."""

    def __init__(self, patience: Patience | None, on_message: Callable[[bytes], object] | None) -> None:
        self.key: Final = f"apass-{uuid4().hex}"
        self.has_begun = False
        """Whether a worker has begun it, so that it may be the cause if the worker dies."""
        self._messages = Messages(patience, on_message)

    def receive(self, report: bytes) -> None:
        """Handle a report of its worker, in a thread of the client."""
        if report == TASK_BEGUN:
            self.has_begun = True
        else:
            self._messages.receive(report)


class Connection:
    """An open client.

    The methods block, and must be called in a thread.

    Parameters:
        client: the client.
        cluster: the cluster on this machine that belongs to it, if any.
        address: the address to connect to again if the client has given up; None if the client belongs to the caller.

    """

    def __init__(self, client: Any, cluster: Any, address: str | None) -> None:
        self.threads = 1
        """The number of threads of the workers when they were last counted."""
        self.is_empty = False
        """Whether there was no scheduler or no worker when they were last counted."""
        self.counted = perf_counter()
        """When they were last counted."""
        self._client = client
        self._cluster = cluster
        self._address = address
        self._workers = 0 if cluster is None else len(cluster.worker_spec)
        self._lock = Lock()
        self._prepared: Any = None
        """The stream to the scheduler that knows this client's topic; a new scheduler has another one."""
        self._scattered: dict[str, Any] = {}
        self._stopped: set[str] = set()
        # Entries vanish with the calls that wait.
        self._tasks: WeakValueDictionary[str, DaskTask] = WeakValueDictionary()
        self._prepare()
        self._check_versions()
        self.count()

    def _prepare(self) -> None:
        """Give a new scheduler what it needs for the tasks. Hold the lock."""
        stream = self._client.scheduler_comm
        if stream is self._prepared:
            return
        try:
            self._client.register_plugin(LossPlugin())
        except OSError:
            raise
        except Exception as error:
            raise ExecutorError(
                f"the Dask scheduler at {self._client.scheduler.address} cannot load apass: {type(error).__name__}: "
                f"{error}; install the same version of apass there, and let distributed.scheduler.pickle be true"
            ) from error
        # Dask removes the events of a topic with the name of the client some time after its end.
        self._client.subscribe_topic(self._client.id, self._on_event)
        self._scattered.clear()
        self._prepared = stream

    def _check_versions(self) -> None:
        versions = self._client.get_versions(packages=["apass"])
        found = {"scheduler": versions["scheduler"]} | {f"worker {at}": of for at, of in versions["workers"].items()}
        for name, process in found.items():
            python = ".".join(str(process["host"]["python"]).split(".")[:2])
            check_versions(VERSIONS, f"the Dask {name}", {"apass": process["packages"]["apass"], "Python": python})

    def count(self) -> None:
        """Count the workers and their threads."""
        self.counted = perf_counter()
        threads: dict[str, int] = {}
        if self._is_connected():
            with suppress(OSError):
                threads = self._client.nthreads()
        self.is_empty = not threads
        if threads:
            self.threads = max(1, sum(threads.values()))
        if self._cluster is not None and len(threads) < self._workers:
            # On a busy machine, a LocalCluster gives up a worker that restarts slowly. `scale` starts a new one.
            self._cluster.scale(self._workers)

    def lack(self) -> str:
        """Return what the cluster lacks: a scheduler, or a worker."""
        return "worker" if self._is_connected() else "scheduler"

    def _is_connected(self) -> bool:
        return self._client.status == "running" and self._client.scheduler_comm is not None

    def submit(self, request: bytes, batch: Batch, task: DaskTask) -> Any:
        """Submit a batch, and return its future; None without a scheduler.

        Raises:
            ExecutorError: if a client of the caller is closed.

        """
        with self._lock:
            try:
                self._open_again()
                if not self._is_connected():
                    return None
                self._prepare()
                message = batch.message if len(batch.message) <= SMALL else self._scatter(batch)
                self._tasks[task.key] = task
                topic = self._client.id
                future = self._client.submit(
                    run_task, request, message, topic, task.key, VERSIONS, pure=False, key=task.key
                )
            except OSError:
                return None
            if self._client.scheduler_comm is self._prepared:
                return future
        # It may have been sent to a new scheduler, which does not know the topic.
        future.cancel()
        return None

    def _open_again(self) -> None:
        """Replace a client that has given up, if there is a scheduler."""
        if self._client.status not in ("closed", "closing"):
            return
        if self._address is None:
            raise ExecutorError(f"the Dask client of the DaskExecutor is {self._client.status}; keep it open")
        with suppress(ExecutorError):
            self._client = _client_at(self._address, AGAIN_SECONDS)

    def _on_event(self, event: tuple[float, Any]) -> None:
        """Handle an event of the topic, in a thread of the client."""
        if isinstance(event[1], dict):
            return  # of Dask itself
        key, message = event[1]
        task = self._tasks.get(key)
        if task is not None:
            task.receive(message)

    def _scatter(self, batch: Batch) -> Any:
        """Send a batch's message to all workers, once."""
        if batch.key not in self._scattered:
            # Broadcast it: a worker that dies may hold the only copy.
            self._scattered[batch.key] = self._client.scatter(batch.message, broadcast=True, hash=False)
        return self._scattered[batch.key]

    def result(self, future: Any, batch: Batch, task: DaskTask) -> bytes:
        """Return the reply of a future.

        Raises:
            WorkerDiedError: if the batch was lost with its worker or with the scheduler.

        """
        try:
            reply: bytes = future.result()
        except distributed.scheduler.KilledWorker as error:
            reason = f"the worker {error.last_worker.address} died, or did not reply"
            raise WorkerDiedError(reason, is_innocent=not task.has_begun) from None
        except distributed.client.FutureCancelledError as error:
            with self._lock:
                # All workers that held the message may have died, so the message is lost.
                self._scattered.pop(batch.key, None)
            raise WorkerDiedError(f"the Dask cluster has lost it ({error.reason})", is_innocent=True) from None
        except OSError as error:
            # The task has ended, and the scheduler is lost while the client fetches the reply from it.
            raise WorkerDiedError(f"the Dask cluster has lost its reply ({error})", is_innocent=True) from None
        return reply

    def cancel(self, future: Any, batch: Batch) -> None:
        """Withdraw a batch, and request its workers to stop."""
        future.cancel()
        with self._lock:
            is_stopping = batch.key in self._stopped
            self._stopped.add(batch.key)
            self._scattered.pop(batch.key, None)
        if not is_stopping and self._is_connected():
            # Workers stop at their next reply if the scheduler is lost now.
            with suppress(OSError):
                self._client.run(stop_run, batch.key, wait=False, on_error="ignore")

    def restart(self, future: Any) -> None:
        """Restart the worker that does not return a batch, and withdraw the batch."""
        # If a worker does not restart in time, the work continues with the others.
        with suppress(OSError):
            hanging = [address for address, keys in self._client.processing().items() if future.key in keys]
            if hanging:
                self._client.restart_workers(hanging, timeout=START_SECONDS, raise_for_error=False)
        future.cancel()

    def close(self) -> None:
        """Close the client and the cluster that belong to the connection."""
        self._scattered.clear()
        # A scheduler sends the end of a client to all that have its topic. It logs an error if the client is gone. A
        # client that has replaced another one may not have the topic yet.
        with suppress(OSError, ValueError):
            if self._is_connected():
                self._client.unsubscribe_topic(self._client.id)
        if self._address is not None:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def connect(cluster: Any, workers: int) -> Connection:
    """Connect to a cluster.

    Raises:
        ExecutorError: if there is no scheduler or no worker, or their versions are others.

    """
    if isinstance(cluster, distributed.Client):
        return _connection_to(cluster, None, None)
    if isinstance(cluster, str):
        address = cluster.removeprefix(DASK)
        return _connection_to(_client_at(address, START_SECONDS), None, address)
    local_cluster = distributed.LocalCluster(n_workers=workers, threads_per_worker=1, scheduler_kwargs=_SCHEDULER)
    client = distributed.Client(local_cluster, set_as_default=False)
    return _connection_to(client, local_cluster, str(local_cluster.scheduler_address))


def _connection_to(client: Any, cluster: Any, address: str | None) -> Connection:
    try:
        client.wait_for_workers(1, timeout=START_SECONDS)
        return Connection(client, cluster, address)
    except BaseException as error:
        where = client.scheduler.address
        if address is not None:
            client.close()
        if cluster is not None:
            cluster.close()
        if isinstance(error, TimeoutError):
            raise ExecutorError(f"the Dask cluster at {where} has no workers; start some") from None
        raise


def _client_at(address: str, seconds: float) -> Any:
    """Return a client of the scheduler at `HOST:PORT`.

    Raises:
        ExecutorError: if none replies within some seconds.

    """
    _check_scheduler(address, seconds)
    return distributed.Client(address, set_as_default=False)


def _check_scheduler(address: str, seconds: float) -> None:
    """Check that a scheduler replies at the address.

    A client without a scheduler would wait longer, and take longer still to close.
    """
    start = perf_counter()
    try:
        # Dask's connections require asyncio, even if the passes run on trio.
        anyio.run(_check_reply, address, seconds, backend="asyncio")
    except (OSError, ValueError) as error:
        reason = _failure_reason(address, error, seconds, is_late=perf_counter() - start >= seconds)
        raise ExecutorError(
            f"no Dask scheduler replied at {DASK}{address}; check that it is running: {reason}"
        ) from error


def _failure_reason(address: str, error: Exception, seconds: float, *, is_late: bool) -> str:
    """Return the reason why no scheduler replied.

    If Dask gives no reason, because its last attempt was cut short, try to connect with a plain socket.
    """
    first: BaseException = error
    while isinstance(first.__cause__, OSError):
        first = first.__cause__
    if first is not error and str(first):
        return f"{error} ({first})"
    try:
        host_port: tuple[str, int] = distributed.comm.get_address_host_port(address)
        socket.create_connection(host_port, timeout=1).close()
    except OSError as refusal:
        return f"{error} ({refusal})"
    except (ValueError, NotImplementedError):
        return str(error)
    return _no_reply_message(seconds) if is_late else str(error)


def _no_reply_message(seconds: float) -> str:
    return f"the server at this address did not reply within {seconds:g} s"


async def _check_reply(address: str, seconds: float) -> None:
    # If the server is not a scheduler, Dask waits longer than its timeout.
    with anyio.move_on_after(seconds + 1):
        security = distributed.Security().get_connection_args("client")
        (await distributed.comm.connect(address, timeout=seconds, **security)).abort()
        return
    raise TimeoutError(_no_reply_message(seconds))


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Return the result of a function that blocks, called in a thread."""
    return await to_thread.run_sync(partial(function, *args), limiter=NO_LIMIT.here())
