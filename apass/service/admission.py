"""`Admission`: the limits of the rate of tenants, and of the queue."""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from apass.concurrency.signal import Signal
from apass.external.policy import Rate
from apass.external.rate_limiter import RateLimiter
from apass.service.errors import OptimizerClosedError, QueueFullError
from apass.service.limits import Limits

__all__ = ["Admission"]

KEPT_TENANTS: Final = 10_000
"""How many tenants have a rate limiter."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request that waits for room in the queue."""

    decided: anyio.Event = field(default_factory=anyio.Event)
    is_admitted: bool = False


class Admission:
    """Admits jobs while there is room in the queue.

    Tenants that wait are admitted in turn, and the requests of a tenant in order.

    Parameters:
        limits: the limits.
        queued: returns how many jobs wait in the queue.
        waiting: returns how many of a tenant do.

    """

    def __init__(self, limits: Limits, queued: Callable[[], int], waiting: Callable[[str], int]) -> None:
        self._limits = limits
        self._queued = queued
        self._waiting_of = waiting
        self._rates: OrderedDict[str, RateLimiter] = OrderedDict()
        self._storing: dict[str, int] = {}
        """How many admitted jobs of each tenant are being stored, and not in the queue yet."""
        self._requests: dict[str, deque[_Request]] = {}
        """The requests that wait, by tenant. The tenant that was served last is the last one."""
        self._all_storing = 0
        self._left = Signal()
        self._is_closed = False

    async def wait_stored(self) -> None:
        """Wait until all admitted jobs are in the queue, or were not stored."""
        while self._all_storing:
            await self._left.wait()

    async def take_rate(self, tenant: str, *, wait: bool) -> None:
        """Wait until the rate of a tenant permits a further job.

        Raises:
            QueueFullError: if it does not permit one now, and `wait` is false.

        """
        rate = self._limits.tenant_rate
        if rate is None:
            return
        limiter = self._rates.setdefault(tenant, RateLimiter(Rate(questions=rate, burst=max(1, int(rate)))))
        self._rates.move_to_end(tenant)
        if len(self._rates) > KEPT_TENANTS:
            self._rates.popitem(last=False)
        if wait:
            await limiter.take()
        elif not limiter.take_nowait():
            raise QueueFullError(f"a tenant may submit {rate:g} jobs per second", 1.0 / rate)

    async def enter(self, tenant: str, *, wait: bool) -> None:
        """Wait until the queue has room for a job of a tenant, and reserve it.

        `leave` must follow.

        Raises:
            QueueFullError: if there is no room now, and `wait` is false.
            OptimizerClosedError: if the optimizer ends.

        """
        self._check_open()
        reason = self._full(tenant)
        if reason is None and tenant not in self._requests:
            self._reserve(tenant)
            return
        if not wait:
            raise QueueFullError(reason or "other jobs of the tenant wait for room in the queue")
        request = _Request()
        self._requests.setdefault(tenant, deque()).append(request)
        try:
            await request.decided.wait()
        except BaseException:
            if request.is_admitted:
                self.leave(tenant)
            elif not self._is_closed:
                self._requests[tenant].remove(request)
                if not self._requests[tenant]:
                    del self._requests[tenant]
            raise
        if not request.is_admitted:
            self._check_open()

    def leave(self, tenant: str) -> None:
        """Note that an admitted job is in the queue, or was not stored."""
        self._all_storing -= 1
        self._storing[tenant] -= 1
        if not self._storing[tenant]:
            del self._storing[tenant]
        self._left.notify()
        self.admit()

    def admit(self) -> None:
        """Admit requests that wait, while there is room."""
        while (tenant := next((name for name in self._requests if self._full(name) is None), None)) is not None:
            requests = self._requests.pop(tenant)
            request = requests.popleft()
            if requests:
                self._requests[tenant] = requests
            self._reserve(tenant)
            request.is_admitted = True
            request.decided.set()

    def close(self) -> None:
        """Refuse the requests that wait, and all further ones."""
        self._is_closed = True
        for requests in self._requests.values():
            for request in requests:
                request.decided.set()
        self._requests.clear()

    def _check_open(self) -> None:
        if self._is_closed:
            raise OptimizerClosedError("the optimizer ends, and accepts no jobs")

    def _reserve(self, tenant: str) -> None:
        self._all_storing += 1
        self._storing[tenant] = self._storing.get(tenant, 0) + 1

    def _full(self, tenant: str) -> str | None:
        """Return which limit of the queue is reached."""
        limits = self._limits
        if limits.queued is not None and self._queued() + self._all_storing >= limits.queued:
            return f"{limits.queued} jobs wait, which is the limit"
        if limits.tenant_queued is not None:
            waiting = self._waiting_of(tenant) + self._storing.get(tenant, 0)
            if waiting >= limits.tenant_queued:
                return f"{limits.tenant_queued} jobs of the tenant wait, which is the limit"
        return None
