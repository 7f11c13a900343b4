"""`Batches`: work that many tasks hand in, done by a few drivers in batches sized by what an item costs."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast

import anyio
from anyio import CapacityLimiter

__all__ = ["Batches", "Done"]

ItemT = TypeVar("ItemT")
R = TypeVar("R")

BATCH_SECONDS: Final = 0.025
"""What a batch should take: much more than it costs to send one, and little enough to share work out evenly."""


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """What became of one item."""

    result: R | None
    """What it gave, if it did not fail."""
    error: BaseException | None
    """What it raised."""
    seconds: float
    """How long it took, the way there and back not counted."""

    def unwrap(self) -> R:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast("R", self.result)


@dataclass(slots=True, eq=False)
class _Ticket(Generic[ItemT, R]):
    """An item that somebody waits for."""

    item: ItemT
    """What is to be worked on."""
    ready: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is done."""
    done: Done[R] | None = None
    """What became of it."""


class Batches(Generic[ItemT, R]):
    """Does items in batches, within `async with`; leaving the block cancels what is not done.

    Parameters:
        work: does a batch; gives a `Done` for each item, in order.
        slots: each batch at work holds one; shared by all that an executor runs in an event loop.

    """

    def __init__(self, work: Callable[[Sequence[ItemT]], Awaitable[Sequence[Done[R]]]], slots: CapacityLimiter) -> None:
        self._work = work
        self._slots = slots
        self._queue: deque[_Ticket[ItemT, R]] = deque()
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
        # Drivers keep errors for those who wait, so the group has none to wrap the block's own in.
        await self._group.__aexit__(None, None, None)

    async def submit(self, item: ItemT) -> R:
        """Have `item` done, and return what it gave or raise what it raised."""
        ticket: _Ticket[ItemT, R] = _Ticket(item)
        self._queue.append(ticket)
        self._recruit()
        try:
            await ticket.ready.wait()
        finally:
            if ticket.done is None and ticket in self._queue:
                self._queue.remove(ticket)
        assert ticket.done is not None
        return ticket.done.unwrap()

    async def submit_all(self, items: Iterable[ItemT]) -> list[R]:
        """Have `items` done, and return what they gave, in order, or raise what the first to fail raised."""
        every = list(items)
        results: list[Any] = [None] * len(every)
        failures: list[Exception] = []

        async def do(place: int) -> None:
            try:
                results[place] = await self.submit(every[place])
            except Exception as error:
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for place in range(len(every)):
                group.start_soon(do, place)
        if failures:
            raise failures[0]
        return results

    def _recruit(self) -> None:
        """Start a driver while there are items and slots for them; one more waits, in case slots are added."""
        if self._queue and self._drivers <= self._slots.total_tokens:
            self._drivers += 1
            self._group.start_soon(self._drive, name="apass executor driver")

    async def _drive(self) -> None:
        try:
            while self._queue:
                async with self._slots:
                    tickets = self._take()
                    self._recruit()
                    await self._do(tickets)
        finally:
            self._drivers -= 1

    def _take(self) -> list[_Ticket[ItemT, R]]:
        """Take as many items as a batch should have, fewer towards the end, so that all drivers end together."""
        size = 1
        if self._cost is not None:
            workers = max(1, min(self._drivers, int(self._slots.total_tokens)))
            share = -(-len(self._queue) // (2 * workers))
            size = max(1, min(int(BATCH_SECONDS / max(self._cost, 1e-6)), share))
        return [self._queue.popleft() for _ in range(min(size, len(self._queue)))]

    async def _do(self, tickets: list[_Ticket[ItemT, R]]) -> None:
        if not tickets:
            return
        every: Sequence[Done[R]]
        try:
            every = await self._work([ticket.item for ticket in tickets])
        except Exception as error:
            every = [Done(None, error, 0.0) for _ in tickets]
        cost = sum(done.seconds for done in every) / len(tickets)
        self._cost = cost if self._cost is None else (self._cost + cost) / 2
        for ticket, done in zip(tickets, every, strict=True):
            ticket.done = done
            ticket.ready.set()
