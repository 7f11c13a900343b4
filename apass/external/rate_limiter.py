"""`RateLimiter`: whoever asks waits until the rate allows one more question."""

import anyio

from apass.external.policy import Rate

__all__ = ["RateLimiter"]


class RateLimiter:
    """Lets so many through in a time, first come, first served; on any event loop, but on one.

    Whoever is cancelled while waiting has used nothing up.
    """

    __slots__ = ("_full_at", "_line", "_rate")

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._line = anyio.Lock()
        self._full_at = float("-inf")
        """The time at which a whole burst is allowed again."""

    async def take(self) -> None:
        """Return once one more is allowed."""
        async with self._line:
            await anyio.sleep(max(0.0, self._seconds_to_wait()))
            self._use_one()

    def take_nowait(self) -> bool:
        """Take one if it is allowed now and nobody waits; tell whether."""
        if self._line.locked() or self._seconds_to_wait() > 0:
            return False
        self._use_one()
        return True

    def _seconds_to_wait(self) -> float:
        return self._full_at - (self._rate.burst - 1) * self._rate.interval - anyio.current_time()

    def _use_one(self) -> None:
        self._full_at = max(self._full_at, anyio.current_time()) + self._rate.interval
