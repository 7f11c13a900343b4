"""`Batches`: groups items submitted by many tasks into batches of similar cost."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast

import anyio
from anyio import CapacityLimiter

__all__ = ["Batches", "Done", "batch_size"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")

BATCH_SECONDS: Final = 0.025
"""Target duration of a batch.

This is much longer than sending a batch takes, but short enough to balance the load.
"""


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The outcome of one item."""

    result: R | None
    """The result, or None if the item failed."""
    error: BaseException | None
    """The exception, or None if the item succeeded."""
    seconds: float
    """The duration without transport."""

    def unwrap(self) -> R:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast("R", self.result)


def batch_size(queued: int, cost: float, workers: int, seconds: float, least: float = 0.0) -> int:
    """Return the number of items for the next batch, at least 1.

    Towards the end of the queue, batches become smaller, so that all workers finish at about the same time.

    Parameters:
        queued: items in the queue.
        cost: average seconds of an item.
        workers: how many workers share the queue.
        seconds: the target duration of a batch.
        least: the duration below which a smaller batch takes longer to send than it saves.

    >>> batch_size(1000, 0.01, 2, 0.5), batch_size(10, 0.01, 2, 0.5), batch_size(10, 0.01, 2, 0.5, 0.1)
    (50, 3, 5)
    """
    cost = max(cost, 1e-6)
    even = max(ceil(queued / (2 * workers)), min(int(least / cost), ceil(queued / workers)))
    return max(1, min(int(seconds / cost), even))


@dataclass(slots=True, eq=False)
class _Token(Generic[ItemT, R]):
    """A submitted item, with the event that its submitter waits for."""

    item: ItemT
    """The submitted item."""
    ready: anyio.Event = field(default_factory=anyio.Event)
    """Set when the outcome is available."""
    done: Done[R] | None = None
    """The outcome, once available."""


class Batches(Generic[ItemT, R]):
    """Queue that processes items in batches, used with `async with`.

    Leaving the block cancels the unfinished items.

    Parameters:
        work: processes a batch, and returns a `Done` for each item, in order.
        slots: each running batch holds one slot. All work of an executor in an event loop shares the slots.

    """

    def __init__(self, work: Callable[[Sequence[ItemT]], Awaitable[Sequence[Done[R]]]], slots: CapacityLimiter) -> None:
        self._work = work
        self._slots = slots
        self._queue: deque[_Token[ItemT, R]] = deque()
        self._drivers = 0
        self._cost: float | None = None

    async def __aenter__(self) -> Self:
        self._group = await anyio.create_task_group().__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._queue.clear()
        self._group.cancel_scope.cancel()
        # Drivers pass errors to the submitters, so the group has none of its own. Without the block's exception as an
        # argument, the group does not wrap it in an ExceptionGroup.
        await self._group.__aexit__(None, None, None)

    async def submit(self, item: ItemT) -> R:
        """Process `item`, and return its result or raise its exception."""
        token: _Token[ItemT, R] = _Token(item)
        self._queue.append(token)
        self._start_driver()
        try:
            await token.ready.wait()
        finally:
            if token.done is None and token in self._queue:
                self._queue.remove(token)
        assert token.done is not None
        return token.done.unwrap()

    async def submit_all(self, items: Iterable[ItemT]) -> list[R]:
        """Process `items`, and return their results in order.

        The first failure cancels the remaining items and is raised.
        """
        queued = list(items)
        results: list[Any] = [None] * len(queued)
        failures: list[Exception] = []

        async def submit_one(index: int) -> None:
            try:
                results[index] = await self.submit(queued[index])
            except Exception as error:
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index in range(len(queued)):
                group.start_soon(submit_one, index)
        if failures:
            raise failures[0]
        return results

    def _start_driver(self) -> None:
        """Start a driver if items are queued.

        There is one driver more than slots, which waits in case slots are added.
        """
        if self._queue and self._drivers <= self._slots.total_tokens:
            self._drivers += 1
            self._group.start_soon(self._drive, name="apass executor driver")

    async def _drive(self) -> None:
        try:
            while self._queue:
                async with self._slots:
                    tokens = self._next_batch()
                    self._start_driver()
                    await self._process(tokens)
        finally:
            self._drivers -= 1

    def _next_batch(self) -> list[_Token[ItemT, R]]:
        """Remove the next batch from the queue.

        The first one has one item, because the cost of an item is not known.
        """
        size = 1
        if self._cost is not None:
            workers = max(1, min(self._drivers, int(self._slots.total_tokens)))
            size = batch_size(len(self._queue), self._cost, workers, BATCH_SECONDS)
        return [self._queue.popleft() for _ in range(min(size, len(self._queue)))]

    async def _process(self, tokens: list[_Token[ItemT, R]]) -> None:
        if not tokens:
            return
        outcomes: Sequence[Done[R]]
        try:
            outcomes = await self._work([token.item for token in tokens])
        except Exception as error:
            outcomes = [Done(None, error, 0.0) for _ in tokens]
        cost = sum(done.seconds for done in outcomes) / len(tokens)
        self._cost = cost if self._cost is None else (self._cost + cost) / 2
        for token, done in zip(tokens, outcomes, strict=True):
            token.done = done
            token.ready.set()
