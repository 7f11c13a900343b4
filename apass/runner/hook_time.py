"""`HookTime`: measures the hooks around a pass, for instruments with `on_hooks`."""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Final

from apass.concurrency.coroutines import metered
from apass.core.run import Run

__all__ = ["HookTime"]


class HookTime:
    """The time from its creation to `report`, and how much of it hooks only waited."""

    def __init__(self, hooks: Sequence[Callable[[Run | None, float, float, float], object]]) -> None:
        self._hooks: Final = hooks
        self._begin: Final = perf_counter()
        self._busy = 0.0
        self._elapsed = 0.0

    async def wait(self, outcome: Awaitable[Any]) -> Any:
        """Return the result of an async hook."""
        begin = perf_counter()
        try:
            return await metered(_awaited(outcome), self._step)
        finally:
            self._elapsed += perf_counter() - begin

    def report(self, caller: Run | None) -> None:
        """Call `on_hooks` of each instrument; it is part of the time of `caller`."""
        end = perf_counter()
        for hook in self._hooks:
            hook(caller, self._begin, end, end - self._begin - self._elapsed + self._busy)

    def _step(self, start: float, end: float) -> None:
        self._busy += end - start


async def _awaited(outcome: Awaitable[Any]) -> Any:
    return await outcome
