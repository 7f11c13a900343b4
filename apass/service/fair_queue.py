"""`FairQueue`: the jobs that wait, shared fairly between tenants."""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

__all__ = ["FairQueue"]

ItemT = TypeVar("ItemT")

KEPT: Final = 1_000
"""Tenants without items whose used time is kept, besides twice as many as wait."""

LOOKED_AT: Final = 100
"""Items of a tenant that are looked at until one fits."""


class FairQueue(Generic[ItemT]):
    """A queue of items of tenants, which are served by their fair share.

    It is start-time fair queueing. Each tenant has used time, divided by its weight. The next item is that of the
    tenant with the least used time. An item counts with its real time when it has ended. While it runs, it counts with
    the mean time of the items of its tenant, so that a tenant does not get all servers.

    - A tenant that comes waits for one item of each other tenant at most, besides those that run. If others have come
      shortly before, it may wait for as much of their time as an item takes on average.
    - Tenants that always have items get their share of the time, minus one item of each other tenant.
    - A tenant that was idle does not save up its share: it continues from the used time of the tenants that wait.

    Of the items of a tenant, the one with the greatest priority comes first, then the one that was added first.

    Parameters:
        weights: the weights of tenants; 1 for others.
        guess: the assumed time of an item before one has ended, in seconds.

    >>> queue = FairQueue[str]({})
    >>> for name in ("a1", "a2", "b1"):
    ...     _ = queue.add(name, tenant=name[0], priority=0)
    >>> [queue.pop(lambda tenant: True) for _ in range(4)]
    ['a1', 'b1', 'a2', None]

    """

    def __init__(self, weights: Mapping[str, float], guess: float = 1.0) -> None:
        self.mean: float = guess
        """The mean time of an item in seconds, of which the last ones count most."""
        self._weights: Final = weights
        self._waiting: Final[dict[str, _Tenant[ItemT]]] = {}
        """The tenants that have items, in the order in which they came."""
        self._idle: Final[dict[str, _Tenant[ItemT]]] = {}
        """Tenants without items."""
        self._start = 0.0
        """The used time from which a tenant without items continues."""
        self._numbers = count()
        self._length = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self._length

    def waiting(self, tenant: str) -> int:
        """Return the number of items of a tenant."""
        return len(self._waiting[tenant].items) if tenant in self._waiting else 0

    def add(self, item: ItemT, *, tenant: str, priority: int) -> int:
        """Add an item, and return a number for `remove`."""
        entry = self._waiting.get(tenant)
        if entry is None:
            entry = self._waiting[tenant] = self._entry(tenant)
            del self._idle[tenant]
            entry.used = max(entry.used, self._start)
            entry.is_new, entry.is_held = True, False
        number = next(self._numbers)
        entry.items[number] = item
        heappush(entry.heap, (-priority, number))
        self._length += 1
        return number

    def remove(self, number: int, *, tenant: str) -> bool:
        """Remove an item by its number; return whether it was in the queue."""
        entry = self._waiting.get(tenant)
        # Its entry in the heap is skipped later.
        if entry is None or entry.items.pop(number, None) is None:
            return False
        self._removed(tenant, entry)
        return True

    def pop(self, may_run: Callable[[str], bool], fits: Callable[[ItemT], bool] = lambda item: True) -> ItemT | None:
        """Remove and return the next item of the tenants for which `may_run` is true.

        If it does not fit, it stays the first of its tenant, and the first of the next items of its tenant that fits is
        served, or else the next tenant. `end` must follow.
        """
        # Few tenants wait at once, so that a heap of tenants would cost more than it saves.
        for name, entry in self._waiting.items():
            entry.is_held = not may_run(name)
        tenants = {name: entry for name, entry in self._waiting.items() if not entry.is_held}
        while tenants:
            tenant = min(tenants, key=lambda name: tenants[name].expected(self.mean))
            entry = tenants.pop(tenant)
            number = entry.take(fits)
            if number is None:
                continue
            item = entry.items.pop(number)
            entry.running += 1
            entry.is_new = False
            self._removed(tenant, entry)
            return item
        return None

    def begin(self, tenant: str) -> None:
        """Note that a tenant is served without an item of the queue; `end` must follow."""
        self._entry(tenant).running += 1

    def end(self, tenant: str, seconds: float, *, is_typical: bool = True) -> None:
        """Note that an item of a tenant has run for so long.

        Parameters:
            tenant: the tenant.
            seconds: the time.
            is_typical: whether the mean includes the time, because the item was not cancelled.

        """
        entry = self._entry(tenant)
        entry.running -= 1
        entry.used += seconds / entry.weight
        if is_typical:
            self.mean += (seconds - self.mean) / 8
            entry.mean = seconds if entry.mean is None else entry.mean + (seconds - entry.mean) / 8
        # Real times only: if it contained an estimate that is too long, a tenant that comes would wait for as long.
        # A stream of new tenants must not hold it back, so each of them counts as if it had had an item. A tenant that
        # may not run now must not hold it back either.
        starts = [
            other.used + (other.one(self.mean) if other.is_new else 0.0)
            for other in self._waiting.values()
            if not other.is_held
        ]
        self._start = max(self._start, min([entry.used, *starts]))

    def _entry(self, tenant: str) -> "_Tenant[ItemT]":
        """Return a tenant, with or without items."""
        entry = self._waiting.get(tenant) or self._idle.get(tenant)
        if entry is None:
            entry = self._idle[tenant] = _Tenant(self._weights.get(tenant, 1.0), self._start)
        return entry

    def _removed(self, tenant: str, entry: "_Tenant[ItemT]") -> None:
        """Note that a tenant has an item less."""
        self._length -= 1
        if entry.items:
            return
        del self._waiting[tenant]
        entry.heap.clear()
        self._idle[tenant] = entry
        if len(self._idle) > KEPT + 2 * len(self._waiting):
            # A tenant that has used less continues from there anyway.
            for name, idle in list(self._idle.items()):
                if not idle.running and idle.used <= self._start:
                    del self._idle[name]


class _Tenant(Generic[ItemT]):
    """The items and the used time of a tenant."""

    __slots__ = ("heap", "is_held", "is_new", "items", "mean", "running", "used", "weight")

    def __init__(self, weight: float, used: float) -> None:
        self.items: dict[int, ItemT] = {}
        """The items by their numbers."""
        self.heap: list[tuple[int, int]] = []
        """The negative priority and the number of each item, and of some that were removed."""
        self.weight = weight
        self.used = used
        """Seconds of items that have ended, divided by the weight."""
        self.running = 0
        """How many items run."""
        self.mean: float | None = None
        """The mean time of its items in seconds; None if none has ended."""
        self.is_new = True
        """Whether it has not been served since it came."""
        self.is_held = False
        """Whether it was not allowed to run when an item was served last."""

    def take(self, fits: Callable[[ItemT], bool]) -> int | None:
        """Remove the first item that fits from the heap, and return its number.

        It is None if none of the first ones fits.
        """
        skipped: list[tuple[int, int]] = []
        found: int | None = None
        while self.heap and found is None and len(skipped) < LOOKED_AT:
            entry = heappop(self.heap)
            if entry[1] in self.items:
                if fits(self.items[entry[1]]):
                    found = entry[1]
                else:
                    skipped.append(entry)
        for entry in skipped:
            heappush(self.heap, entry)
        return found

    def one(self, mean: float) -> float:
        """Return the time that an item probably uses, given the mean of all tenants."""
        return (mean if self.mean is None else self.mean) / self.weight

    def expected(self, mean: float) -> float:
        """Return the used time after the items that run, given the mean of all tenants."""
        return self.used + self.running * self.one(mean)
