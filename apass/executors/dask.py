"""`DaskExecutor`: plain bodies, functions and whole passes on the machines of a Dask cluster."""

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Self, cast
from uuid import uuid4

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from anyio.lowlevel import EventLoopToken, current_token

from apass.errors import ExecutorError, MissingExtraError
from apass.executors.limits import NO_LIMIT, usable_cores
from apass.executors.remote import Errand, RemoteExecutor, WorkerDiedError
from apass.executors.worker import handle, stop

try:
    import distributed
except ImportError as error:
    raise MissingExtraError(f"a Dask cluster needs distributed ({error}): pip install apass[dask]") from error

__all__ = ["DaskExecutor"]

_dask: Any = distributed

LATE_SECONDS: Final = 2.0
"""How much longer than its time a batch may take on its way before its worker is taken to hang."""
START_SECONDS: Final = 10.0
"""How long a scheduler may give no answer, and a cluster may have no worker at first, before there is an error."""
LOST_SECONDS: Final = 60.0
"""How long a cluster may be without any worker while work waits, which may be restarting, before there is an error."""
COUNT_SECONDS: Final = 1.0
"""How often the workers of a cluster are counted, which come and go."""
SMALL: Final = 1 << 12
"""Bytes that go with each batch, rather than to all workers first."""
_SCHEDULER: Final = {"allowed_failures": 1, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""A scheduler serves metrics even without a dashboard: on a free port, as the usual one may be another cluster's."""


class DaskExecutor(RemoteExecutor):
    """An Executor over a Dask cluster, to be used with `async with`, from asyncio and from trio.

    The client works in threads of its own. What a run needs goes to the workers once, and batches refer to it. What a
    worker was at when it died is done by another one: Dask tries a batch so often as its `allowed-failures` says, and
    then there is a WorkerLostError. A cancelled run takes back what has not begun; bodies at work are told, and end at
    their next `check_cancelled()`, whole passes at their next wait. The workers need apass, the libraries that the
    passes use, and the modules that define them.

    Parameters:
        cluster: a synchronous `distributed.Client`, which stays open; the address of a scheduler, such as
            `"tcp://host:8786"`; None for workers on this machine, which end with the block.
        timeout: seconds for one body, call or module; a worker that takes longer is restarted. None is no limit.
        workers: of a cluster on this machine; as many as there are processors that this program may use, if left out.

    Raises:
        ExecutorError: when the block is entered, if there is no scheduler at the address, or it has no workers.

    """

    def __init__(self, cluster: Any = None, *, timeout: float | None = None, workers: int | None = None) -> None:
        super().__init__(usable_cores() if workers is None else workers, timeout)
        if isinstance(cluster, _dask.Client) and cluster.asynchronous:
            raise ExecutorError("DaskExecutor needs a Client that is not asynchronous: its loop is a thread of its own")
        if cluster is not None and not isinstance(cluster, str | _dask.Client):
            raise TypeError(f"DaskExecutor takes a distributed.Client, an address or None, not {cluster!r}")
        self._cluster: Final[Any] = cluster
        self._open: _Connection | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Within a worker, everything stays where it is.
        return str, ("inline",)

    def __repr__(self) -> str:
        return f"DaskExecutor({self._cluster!r})"

    async def __aenter__(self) -> Self:
        if self._open is not None:
            raise ExecutorError("a DaskExecutor is entered once; make another one, or share this one within its block")
        with anyio.CancelScope(shield=True):
            self._open = await to_thread.run_sync(_connect, self._cluster, self.workers)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        open_, self._open = self._connection, None
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(open_.close)

    @property
    def _connection(self) -> "_Connection":
        if self._open is None:
            raise ExecutorError("a DaskExecutor works within `async with DaskExecutor(...) as executor:` only")
        return self._open

    def slots(self) -> CapacityLimiter:
        """Return a slot for each thread of the cluster's workers."""
        return self._connection.slots

    def ends_late_workers(self) -> bool:
        """Return False: a worker may be at somebody else's work too."""
        return False

    async def exchange(self, request: bytes, errand: Errand) -> bytes:
        """Have a worker of the cluster do it."""
        connection = self._connection
        limit = None if errand.limit is None else errand.limit + LATE_SECONDS
        future = await _in_thread(connection.submit, request, errand)
        done = _Done(current_token())
        future.add_done_callback(done)
        try:
            with anyio.move_on_after(limit):
                await connection.wait(done.event)
                return cast("bytes", await _in_thread(connection.result, future, errand))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await _in_thread(connection.cancel, future, errand)
            raise
        await _in_thread(connection.restart, future)
        raise WorkerDiedError(f"it took longer than {errand.limit:g} s", is_late=True)


class _Done:
    """Wakes the task that waits for a future, from a thread of the client's."""

    def __init__(self, token: EventLoopToken) -> None:
        self.event = anyio.Event()
        self._token = token

    def __call__(self, _future: Any) -> None:
        # The run may be over by now, and the loop too.
        with suppress(anyio.RunFinishedError):
            from_thread.run_sync(self.event.set, token=self._token)


class _Connection:
    """A client at work. Its methods wait, and so belong into threads."""

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
        self.slots = CapacityLimiter(self.count())

    async def wait(self, done: anyio.Event) -> None:
        """Wait for a batch, and count the workers meanwhile; the only method for the loop itself.

        Raises:
            WorkerDiedError: if there has been none for a minute, so that nobody would ever do it.

        """
        seen = perf_counter()
        while not done.is_set():
            with anyio.move_on_after(COUNT_SECONDS):
                await done.wait()
            if perf_counter() - self._counted > COUNT_SECONDS:
                self.slots.total_tokens = await _in_thread(self.count)
            seen = seen if self._is_empty else perf_counter()
            if perf_counter() - seen > LOST_SECONDS and not done.is_set():
                message = f"the cluster has had no worker for {LOST_SECONDS:g} s"
                raise WorkerDiedError(message, is_final=True)

    def count(self) -> int:
        """Return how many threads the workers have, 1 while there is none."""
        self._counted = perf_counter()
        threads: dict[str, int] = self._client.nthreads()
        self._is_empty = not threads
        if self._cluster is not None and len(threads) < self._workers:
            # A cluster gives up a worker that takes long to come back, on a busy machine; this makes it start one anew.
            self._cluster.scale(self._workers)
        return max(1, sum(threads.values()))

    def submit(self, request: bytes, errand: Errand) -> Any:
        """Send a batch off, and return the future of its reply."""
        parcel = errand.parcel if len(errand.parcel) <= SMALL else self._scatter(errand)
        return self._client.submit(handle, request, parcel, pure=False, key=f"apass-{uuid4().hex}")

    def _scatter(self, errand: Errand) -> Any:
        """Send what the batches have in common to all workers, once."""
        with self._lock:
            if errand.key not in self._scattered:
                # A worker that dies may be the only one that has it, so all get it.
                self._scattered[errand.key] = self._client.scatter(errand.parcel, broadcast=True, hash=False)
            return self._scattered[errand.key]

    def result(self, future: Any, errand: Errand) -> bytes:
        """Return the reply; WorkerDiedError if the workers that tried died."""
        try:
            reply: bytes = future.result()
        except _dask.scheduler.KilledWorker as error:
            raise WorkerDiedError(f"its workers died: {error}", is_final=True) from None
        except _dask.client.FutureCancelledError:
            with self._lock:
                # What was sent to all is lost, with all that had it.
                self._scattered.pop(errand.key, None)
            raise WorkerDiedError("the workers died that had been told of it") from None
        return reply

    def cancel(self, future: Any, errand: Errand) -> None:
        """Take a batch back, and tell whoever is at it that nobody waits."""
        future.cancel()
        with self._lock:
            is_told = errand.key in self._stopped
            self._stopped.add(errand.key)
            self._scattered.pop(errand.key, None)
        if not is_told:
            self._client.run(_stop, errand.key, wait=False, on_error="ignore")

    def restart(self, future: Any) -> None:
        """Restart the worker that does not come back with a batch, and take that back."""
        hanging = [address for address, keys in self._client.processing().items() if future.key in keys]
        future.cancel()
        if hanging:
            # One that does not come back in time is one worker less; the work goes on.
            with suppress(TimeoutError):
                self._client.restart_workers(hanging, timeout=START_SECONDS, raise_for_error=False)

    def close(self) -> None:
        """Let go of the cluster; end what was started for this."""
        self._scattered.clear()
        if self._is_own:
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()


async def _stop(key: str) -> None:
    """Do as `stop`, in the event loop of a worker: Dask waits for no other sort of function there."""
    stop(key)


def _connect(given: Any, workers: int) -> _Connection:
    if isinstance(given, _dask.Client):
        return _checked(given, None, is_own=False)
    if isinstance(given, str):
        _check_scheduler(given)
        return _checked(_dask.Client(given, set_as_default=False), None, is_own=True)
    cluster = _dask.LocalCluster(n_workers=workers, threads_per_worker=1, scheduler_kwargs=_SCHEDULER)
    return _checked(_dask.Client(cluster, set_as_default=False), cluster, is_own=True)


def _check_scheduler(address: str) -> None:
    """Return if a scheduler answers there soon. A client that finds none waits longer, and longer still for its end."""
    begun = perf_counter()
    try:
        anyio.run(_greet, address, backend="asyncio")  # which is Dask's own, whatever runs the passes
    except (OSError, ValueError) as error:
        reason = _reason(address, error, is_late=perf_counter() - begun >= START_SECONDS)
        raise ExecutorError(f"no Dask scheduler answers at {address}; is one running there? {reason}") from error


def _reason(address: str, error: Exception, *, is_late: bool) -> str:
    """Return why no scheduler answered; where Dask does not say, as its last try was cut short, the system does."""
    first: BaseException = error
    while isinstance(first.__cause__, OSError):
        first = first.__cause__
    if first is not error and str(first):
        return f"{error} ({first})"
    try:
        place: tuple[str, int] = _dask.comm.get_address_host_port(address)
        socket.create_connection(place, timeout=1).close()
    except OSError as refusal:
        return f"{error} ({refusal})"
    except (ValueError, NotImplementedError):
        return str(error)
    return _no_answer() if is_late else str(error)


def _no_answer() -> str:
    return f"what listens there gave no answer within {START_SECONDS:g} s"


async def _greet(address: str) -> None:
    # What listens there but is no scheduler keeps Dask waiting for longer than it was told.
    with anyio.move_on_after(START_SECONDS + 1):
        (await _dask.comm.connect(address, timeout=START_SECONDS)).abort()
        return
    raise TimeoutError(_no_answer())


def _checked(client: Any, cluster: Any, *, is_own: bool) -> _Connection:
    try:
        client.wait_for_workers(1, timeout=START_SECONDS)
    except TimeoutError:
        message = f"the Dask cluster at {client.scheduler.address} has no workers"
        if is_own:
            client.close()
        raise ExecutorError(message) from None
    return _Connection(client, cluster, is_own=is_own)


async def _in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await to_thread.run_sync(partial(function, *args), limiter=NO_LIMIT.here())
