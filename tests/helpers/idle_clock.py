"""A clock that stands still while anything runs: what a time limit cuts off is then the same on a machine that stalls.

It goes on only when every task waits, and then at once to the first time that one of them waits for. So it is of no use
where a thread or a process is waited for within a time limit.
"""

import asyncio
from dataclasses import dataclass
from selectors import DefaultSelector, SelectorKey
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

__all__ = ["IdleClock", "idle_clock"]

DAY = 24 * 3600
"""The longest that asyncio waits at a time: nothing is due before."""


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that goes on to the next time it would wake at, instead of waiting for it."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the time of the idle clock."""
        return self.now


class _Selector(DefaultSelector):
    """What a loop waits with."""

    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return what is ready; where nothing is, the time is over at once, and where nothing is due, wait."""
        if timeout is None or timeout >= DAY:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.loop.now += timeout
        return ready


@dataclass(frozen=True)
class IdleClock:
    """An event loop by name, on an idle clock."""

    backend: str

    def begin(self, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
        """Return the backend and its options; budgets go by the same clock."""
        monkeypatch.setattr("apass.core.deadline.monotonic", anyio.current_time)
        if self.backend == "asyncio":
            return self.backend, {"loop_factory": _Loop}
        return self.backend, {"clock": MockClock(autojump_threshold=0)}


idle_clock = pytest.mark.parametrize(
    "anyio_backend", [IdleClock("asyncio"), IdleClock("trio")], ids=["asyncio", "trio"], indirect=True
)
"""For tests in which a time limit is over for some and not for others."""
