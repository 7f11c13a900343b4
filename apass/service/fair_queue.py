"""`FairQueue`: the jobs that wait, shared fairly between tenants."""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, TypeVar

__all__ = ["FairQueue"]

ItemT = TypeVar("ItemT")


class FairQueue(Generic[ItemT]):
    """A queue that serves first the tenant with the least used time.

    The time is relative to the weight of the tenant. It is start-time fair queueing by used seconds. A tenant that was
    idle does not save up its share: it continues from the least used time of the tenants that wait. Of the items of a
    tenant, the one with the greatest priority comes first, then the one that was added first.

    Parameters:
        weights: the weights of tenants; 1 for others.

    >>> queue = FairQueue[str]({})
    >>> for name in ("a1", "a2", "b1"):
    ...     _ = queue.add(name, tenant=name[0], priority=0)
    >>> order = []
    >>> while (name := queue.pop(lambda tenant: True)) is not None:
    ...     order.append(name)
    ...     queue.charge(name[0], 1.0)
    >>> order
    ['a1', 'b1', 'a2']

    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights: Final = weights
        self._tenants: Final[dict[str, _Tenant[ItemT]]] = {}
        """The tenants that have items, or have used time since one of these began to wait."""
        self._numbers = count()
        self._length = 0

    def __len__(self) -> int:
        """Return the number of items."""
        return self._length

    def waiting(self, tenant: str) -> int:
        """Return the number of items of a tenant."""
        return len(self._tenants[tenant].items) if tenant in self._tenants else 0

    def add(self, item: ItemT, *, tenant: str, priority: int) -> int:
        """Add an item, and return a number for `remove`."""
        entry = self._tenants.get(tenant)
        if entry is None or not entry.items:
            used = min((other.used for other in self._tenants.values() if other.items), default=0.0)
            entry = self._tenants.setdefault(tenant, _Tenant())
            entry.used = max(entry.used, used)
        number = next(self._numbers)
        entry.items[number] = item
        heappush(entry.heap, (-priority, number))
        self._length += 1
        return number

    def remove(self, number: int, *, tenant: str) -> bool:
        """Remove an item by its number; return whether it was in the queue."""
        entry = self._tenants.get(tenant)
        # Its place in the heap is skipped later.
        if entry is None or entry.items.pop(number, None) is None:
            return False
        self._length -= 1
        self._drop_idle()
        return True

    def pop(self, may_run: Callable[[str], bool]) -> ItemT | None:
        """Remove and return the next item of the tenants for which `may_run` is true."""
        # Few tenants wait at once, so that a second heap would cost more than it saves.
        tenants = [(entry.used, name) for name, entry in self._tenants.items() if entry.items and may_run(name)]
        if not tenants:
            return None
        entry = self._tenants[min(tenants)[1]]
        while True:
            _, number = heappop(entry.heap)
            if number in entry.items:
                self._length -= 1
                return entry.items.pop(number)

    def charge(self, tenant: str, seconds: float) -> None:
        """Record that a tenant has used time; negative seconds correct an estimate."""
        entry = self._tenants.setdefault(tenant, _Tenant())
        entry.used += seconds / self._weights.get(tenant, 1.0)
        self._drop_idle()

    def _drop_idle(self) -> None:
        """Forget tenants, if none waits: all of them are equal then."""
        if not self._length:
            self._tenants.clear()


class _Tenant(Generic[ItemT]):
    """The items and the used time of one tenant."""

    __slots__ = ("heap", "items", "used")

    def __init__(self) -> None:
        self.items: dict[int, ItemT] = {}
        """The items by their numbers."""
        self.heap: list[tuple[int, int]] = []
        """The negative priority and the number of each item, and of some that were removed."""
        self.used = 0.0
        """Used seconds, divided by the weight."""
