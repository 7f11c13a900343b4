"""Instruments for workers that a user may write; importable in workers."""

from collections.abc import Callable
from threading import Lock
from typing import Any

from anyio.lowlevel import checkpoint

from apass import PassInfo, current_run, pass_instrument


@pass_instrument
class CountPasses:
    """Counts the runs of passes by module."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.lost = 0

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Count a pass."""
        run = current_run()
        assert run is not None
        assert run.module is not None
        self.counts[run.module] = self.counts.get(run.module, 0) + 1

    def for_worker(self) -> Callable[[], object]:
        """Return the class, which the worker calls."""
        return CountPasses

    def worker_records(self) -> dict[str, int]:
        """Return the counts of a worker."""
        return self.counts

    def merge_records(self, records: dict[str, int]) -> None:
        """Add the counts of a worker."""
        for module, count in records.items():
            self.counts[module] = self.counts.get(module, 0) + count

    def worker_lost(self, error: BaseException) -> None:
        """Count a worker that returned nothing."""
        self.lost += 1


@pass_instrument
class SkipFail:
    """Skips the pass Fail; has no records."""

    async def should_run(self, mod: Any, info: PassInfo) -> bool:
        """Return whether the pass may run."""
        await checkpoint()
        return info.name != "Fail"

    def for_worker(self) -> Callable[[], object]:
        """Return the class."""
        return SkipFail


@pass_instrument
class RaiseAtStart:
    """Raises an error before each pass."""

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Raise an error."""
        raise LookupError(f"not {info.name}")

    def for_worker(self) -> Callable[[], object]:
        """Return the class."""
        return RaiseAtStart


@pass_instrument
class KeepLock:
    """Its records cannot be pickled."""

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Do nothing."""

    def for_worker(self) -> Callable[[], object]:
        """Return the class."""
        return KeepLock

    def worker_records(self) -> object:
        """Return a lock."""
        return Lock()
