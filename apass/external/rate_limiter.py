"""`RateLimiter`: delays requests to keep a rate."""

import anyio

from apass.external.policy import Rate

__all__ = ["RateLimiter"]


class RateLimiter:
    """A FIFO rate limiter, for one event loop.

    A cancelled waiter does not consume the rate.
    """

    __slots__ = ("_full_at", "_queue", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._queue = anyio.Lock()
        self._full_at = float("-inf")
        """The time at which a full burst is available again."""

    async def take(self) -> None:
        """Wait until one more request is permitted."""
        async with self._queue:
            await anyio.sleep(max(0.0, self._seconds_to_wait()))
            self._use_one()

    def take_nowait(self) -> bool:
        """Consume one request if it is permitted now and no task waits; return whether."""
        if self._queue.locked() or self._seconds_to_wait() > 0:
            return False
        self._use_one()
        return True

    def _seconds_to_wait(self) -> float:
        return self._full_at - (self._rate.burst - 1) * self._rate.interval - anyio.current_time()

    def _use_one(self) -> None:
        self._full_at = max(self._full_at, anyio.current_time()) + self._rate.interval
