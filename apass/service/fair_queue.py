"""`FairQueue`: the jobs that wait, shared fairly between tenants."""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

__all__ = ["FairQueue"]

ItemT = TypeVar("ItemT")

KEPT: Final = 1_000
"""Tenants without items whose used time is kept, besides twice as many as wait."""


class FairQueue(Generic[ItemT]):
    """A queue of items of tenants, which are served by their fair share.

    It is self-clocked weighted fair queueing. Each tenant has used time, divided by its weight. The next item is that
    of the tenant that has the least such time after the item. Tenants that always have items get at least their share
    of the time, minus one item. A tenant that was idle does not save up its share: it continues from the time of the
    tenant that was served last.

    Of the items of a tenant, the one with the greatest priority comes first, then the one that was added first.

    Parameters:
        weights: the weights of tenants; 1 for others.

    >>> queue = FairQueue[str]({})
    >>> for name in ("a1", "a2", "b1"):
    ...     _ = queue.add(name, tenant=name[0], priority=0)
    >>> [queue.pop(lambda tenant: True, 1.0) for _ in range(4)]
    ['a1', 'b1', 'a2', None]

    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights: Final = weights
        self._waiting: Final[dict[str, _Tenant[ItemT]]] = {}
        """The tenants that have items."""
        self._idle: Final[dict[str, float]] = {}
        """The used time of tenants without items."""
        self._latest = 0.0
        """The greatest used time of a tenant when it was served; a tenant that was idle continues from it."""
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
            entry = self._waiting[tenant] = _Tenant(max(self._idle.pop(tenant, 0.0), self._latest))
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

    def pop(self, may_run: Callable[[str], bool], seconds: float) -> ItemT | None:
        """Remove and return the next item of the tenants for which `may_run` is true.

        Parameters:
            may_run: whether a tenant may be served.
            seconds: the time that the item is expected to use, which its tenant is charged.

        """
        # Few tenants wait at once, so that a heap of tenants would cost more than it saves.
        ends = {name: entry.used + self._share(name, seconds) for name, entry in self._waiting.items() if may_run(name)}
        if not ends:
            return None
        tenant = min(ends, key=ends.__getitem__)
        entry = self._waiting[tenant]
        while True:
            _, number = heappop(entry.heap)
            if number in entry.items:
                break
        item = entry.items.pop(number)
        entry.used = ends[tenant]
        self._latest = max(self._latest, entry.used)
        self._removed(tenant, entry)
        return item

    def charge(self, tenant: str, seconds: float) -> None:
        """Record that a tenant has used time; negative seconds correct an estimate."""
        share = self._share(tenant, seconds)
        if tenant in self._waiting:
            self._waiting[tenant].used += share
        else:
            self._idle[tenant] = self._idle.get(tenant, self._latest) + share

    def _share(self, tenant: str, seconds: float) -> float:
        return seconds / self._weights.get(tenant, 1.0)

    def _removed(self, tenant: str, entry: "_Tenant[ItemT]") -> None:
        """Note that a tenant has an item less."""
        self._length -= 1
        if entry.items:
            return
        del self._waiting[tenant]
        self._idle[tenant] = entry.used
        if len(self._idle) > KEPT + 2 * len(self._waiting):
            # A tenant that has used less continues from there anyway.
            for name in [name for name, used in self._idle.items() if used <= self._latest]:
                del self._idle[name]


class _Tenant(Generic[ItemT]):
    """The items and the used time of a tenant that waits."""

    __slots__ = ("heap", "items", "used")

    def __init__(self, used: float) -> None:
        self.items: dict[int, ItemT] = {}
        """The items by their numbers."""
        self.heap: list[tuple[int, int]] = []
        """The negative priority and the number of each item, and of some that were removed."""
        self.used = used
        """Used seconds, divided by the weight."""
