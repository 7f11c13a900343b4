"""`ThreadBatches`: concurrent callers share the calls that run in worker threads."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

import anyio
from anyio.from_thread import run_sync as run_in_loop
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync

__all__ = ["ThreadBatches", "call_all"]

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class ThreadBatches(Generic[ItemT, ResultT]):
    """Handles the items of concurrent callers in worker threads, many at a time.

    A call in a worker thread costs as much as hundreds of lines of Python. The first caller starts one at once. The
    items of later callers are queued until it ends, and then handled together by the next one.

    A caller that is cancelled while its item is queued removes it. Later, it waits for the end of the call, so that no
    thread works for a caller that has ended.

    One object may serve several event loops; each has its own queue.

    Parameters:
        handle: called in a worker thread with the items of a batch; returns the result or the error of each.
        threads: how many batches may run at once.
        size: the maximum number of items of a batch.

    """

    def __init__(
        self,
        handle: Callable[[Sequence[ItemT]], Sequence[ResultT | BaseException]],
        *,
        threads: int = 1,
        size: int = 256,
    ) -> None:
        self._handle = handle
        self._threads = threads
        self._size = size
        self._queues: RunVar[_Queue[ItemT, ResultT]] = RunVar("apass_thread_batches")

    async def run(self, item: ItemT) -> ResultT:
        """Return the result of an item.

        Raises:
            BaseException: the error that `handle` returned for the item, or raised.

        """
        queue = self._queue()
        request: _Request[ItemT, ResultT] = _Request(item)
        if queue.active < self._threads:
            queue.active += 1
            await self._lead([request])
        else:
            request.woken = anyio.Event()
            queue.requests.append(request)
            await self._wait(request, request.woken)
            if request.leads:
                rest = min(len(queue.requests), self._size - 1)
                await self._lead([request, *(queue.requests.popleft() for _ in range(rest))])
        if isinstance(request.result, BaseException):
            raise request.result
        return cast("ResultT", request.result)

    def _queue(self) -> "_Queue[ItemT, ResultT]":
        try:
            return self._queues.get()
        except LookupError:
            queue = _Queue[ItemT, ResultT]()
            self._queues.set(queue)
            return queue

    async def _wait(self, request: "_Request[ItemT, ResultT]", woken: anyio.Event) -> None:
        """Return when the request has a result, or is to lead the next batch."""
        try:
            await woken.wait()
        except BaseException:
            if request.leads:
                self._start_next()
            elif request in self._queue().requests:
                self._queue().requests.remove(request)
            else:
                with anyio.CancelScope(shield=True):
                    await woken.wait()
            raise

    async def _lead(self, requests: "list[_Request[ItemT, ResultT]]") -> None:
        """Handle a batch, and wake its callers."""
        batch = _Batch(requests)

        def work() -> None:
            batch.handle(self._handle)
            if batch.is_abandoned:
                run_in_loop(self._settle, batch)

        try:
            # The items of other callers do not depend on a cancellation of this one.
            with anyio.CancelScope(shield=True):
                await run_sync(work)
        except BaseException:
            # A native cancellation of asyncio passes the shield. The thread then wakes the other callers.
            batch.is_abandoned = True
            if batch.is_handled:
                self._settle(batch)
            raise
        self._settle(batch)

    def _settle(self, batch: "_Batch[ItemT, ResultT]") -> None:
        """Wake the callers of a batch, and start the next one."""
        if batch.is_settled:
            return
        batch.is_settled = True
        for request in batch.requests:
            if request.woken is not None:
                request.leads = False
                request.woken.set()
        self._start_next()

    def _start_next(self) -> None:
        queue = self._queue()
        if not queue.requests:
            queue.active -= 1
            return
        request = queue.requests.popleft()
        request.leads = True
        assert request.woken is not None, "a queued request waits"
        request.woken.set()


def call_all(calls: Sequence[Callable[[], object]]) -> list[object]:
    """Return the result or the error of each function, for `ThreadBatches`."""
    results: list[object] = []
    for call in calls:
        try:
            results.append(call())
        except Exception as error:
            results.append(error)
    return results


class _Request(Generic[ItemT, ResultT]):
    """The item of one caller."""

    __slots__ = ("item", "leads", "result", "woken")

    def __init__(self, item: ItemT) -> None:
        self.item = item
        self.result: ResultT | BaseException | None = None
        self.woken: anyio.Event | None = None
        """Set when there is a result, or when the caller is to lead a batch; None for the first caller."""
        self.leads = False
        """Whether the caller is to lead the next batch."""


class _Batch(Generic[ItemT, ResultT]):
    """Requests that one call in a thread handles."""

    def __init__(self, requests: list[_Request[ItemT, ResultT]]) -> None:
        self.requests = requests
        # The loop and the thread each set a flag, then read the other's. Whichever comes second sees both.
        self.is_handled = False
        self.is_abandoned = False
        self.is_settled = False

    def handle(self, handle: Callable[[Sequence[ItemT]], Sequence[ResultT | BaseException]]) -> None:
        try:
            results = handle([request.item for request in self.requests])
            for request, result in zip(self.requests, results, strict=True):
                request.result = result
        except BaseException as error:
            for request in self.requests:
                request.result = error
        finally:
            self.is_handled = True


class _Queue(Generic[ItemT, ResultT]):
    """The requests in one event loop that no batch has taken."""

    def __init__(self) -> None:
        self.requests: deque[_Request[ItemT, ResultT]] = deque()
        self.active = 0
        """How many batches run."""
