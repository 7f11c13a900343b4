"""A clock that advances only while all tasks wait.

When every task waits, it jumps to the earliest wake-up time, so that the load of the machine does not affect time
limits. It cannot be used where a thread or a process is awaited within a time limit.
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
"""Longest timeout that asyncio passes to `select`; it means that no timer is set for an earlier time."""


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that jumps to its next wake-up time."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return the time of the idle clock."""
        return self.now


class _Selector(DefaultSelector):
    """Selector that advances the clock of its loop."""

    def __init__(self, loop: _Loop) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the ready keys; if there are none, advance the clock by `timeout`.

        If no timer is set, wait for input.
        """
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
        """Return the backend and its options; make deadlines use the same clock."""
        monkeypatch.setattr("apass.core.deadline.monotonic", anyio.current_time)
        if self.backend == "asyncio":
            return self.backend, {"loop_factory": _Loop}
        return self.backend, {"clock": MockClock(autojump_threshold=0)}


idle_clock = pytest.mark.parametrize(
    "anyio_backend", [IdleClock("asyncio"), IdleClock("trio")], ids=["asyncio", "trio"], indirect=True
)
"""For tests in which a time limit ends for some bodies and not for others."""
