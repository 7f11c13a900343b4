"""Stores of jobs that fail, or that outlive an optimizer."""

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import anyio

from apass.concurrency.signal import Signal
from apass.service import JobRecord, JobsUnavailableError, MemoryJobStore

__all__ = ["DurableStore", "FaultyStore"]


class DurableStore(MemoryJobStore):
    """A store whose jobs outlive the optimizer, as those of a database do."""

    is_durable = True

    async def open(self, *, wait: bool = False) -> Sequence[JobRecord]:
        """Return the unfinished jobs."""
        return [job for job in self._jobs.values() if not job.ended]


class FaultyStore(DurableStore):
    """A store whose methods fail on command."""

    def __init__(self) -> None:
        super().__init__()
        self.before: set[str] = set()
        """The methods that fail without effect."""
        self.after: set[str] = set()
        """The methods that fail after they have had their effect."""
        self.held: set[str] = set()
        """The methods that wait for `go` after they have had their effect, and set `entered`."""
        self.entered, self.go = anyio.Event(), anyio.Event()
        self.error: Callable[[str], Exception] = JobsUnavailableError
        """Returns the error of a method."""
        self.calls: Counter[str] = Counter()
        """How often each method was called."""
        self.called = Signal()
        """Notified at each call."""


def _faulty(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    method = getattr(DurableStore, name)

    @wraps(method)
    async def call(self: FaultyStore, *args: Any) -> Any:
        self.calls[name] += 1
        self.called.notify()
        if name in self.before:
            raise self.error(f"{name} fails")
        result = await method(self, *args)
        if name in self.after:
            raise self.error(f"{name} fails")
        if name in self.held:
            self.entered.set()
            await self.go.wait()
        return result

    return call


for _name in ("open", "close", "add", "find", "find_done", "find_idempotent", "update", "read", "events", "expire"):
    setattr(FaultyStore, _name, _faulty(_name))
