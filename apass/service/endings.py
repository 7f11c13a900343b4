"""`Endings`: stores how jobs end, until the store accepts it."""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import Any, Final

from apass.concurrency.signal import Signal
from apass.service.errors import JobsUnavailableError
from apass.service.job_store import Blob, JobChange, JobStore, blob_of_file
from apass.service.jobs import JobFailure, JobState
from apass.service.live_job import LiveJob
from apass.service.store_health import StoreHealth
from apass.service.work import WorkResult, describe_failure

__all__ = ["Ending", "Endings"]

MOST: Final = 256
"""Endings that are stored together."""


@dataclass(frozen=True, slots=True, eq=False)
class Ending:
    """Jobs that have ended in the same way, and whose end is not stored yet."""

    jobs: Sequence[LiveJob]
    """The jobs."""
    state: JobState
    """Their final state."""
    failure: JobFailure | None = None
    """Why they have not succeeded."""
    result: WorkResult | None = None
    """The result, and the report of a job that failed."""


class Endings:
    """Stores how jobs end, many at a time.

    Parameters:
        store: where jobs are kept.
        health: whether the store can be used.
        on_end: called with a job when its end is stored.

    """

    def __init__(self, store: JobStore, health: StoreHealth, on_end: Callable[[LiveJob], None]) -> None:
        self._store = store
        self._health = health
        self._on_end = on_end
        self._waiting: deque[Ending] = deque()
        self._news = Signal()
        self._stored = Signal()
        self._has_ended = False
        """Whether its task has ended, as it does when the program is interrupted."""

    def add(self, ending: Ending) -> None:
        """Store an ending soon."""
        for live in ending.jobs:
            live.is_ending = True
        self._waiting.append(ending)
        self._news.notify()

    async def wait_stored(self) -> None:
        """Wait until all endings are stored, or none will be."""
        while self._waiting and not self._has_ended:
            await self._stored.wait()

    def never_stored(self) -> list[LiveJob]:
        """Return the jobs whose end no task will store."""
        return [live for ending in self._waiting for live in ending.jobs] if self._has_ended else []

    async def run(self) -> None:
        """Store endings as they arrive."""
        try:
            while True:
                while self._waiting:
                    endings = [self._waiting[index] for index in range(min(MOST, len(self._waiting)))]
                    await self._store_together(endings)
                    for _ in endings:
                        self._waiting.popleft()
                self._stored.notify()
                await self._news.wait()
        finally:
            self._has_ended = True
            self._stored.notify()

    async def _store_together(self, endings: Sequence[Ending]) -> None:
        """Store endings in one change; retry until the store accepts it."""
        changes = [change for ending in endings for change in await self._changes(ending)]
        is_stored = False
        while not is_stored:
            try:
                await self._store.update([change for _, change in changes])
                is_stored = True
            except JobsUnavailableError as error:
                self._health.note_failure(error)
                await self._health.pause()
            except Exception as error:
                await self._store_apart(endings, error)
                return
        self._health.note_success()
        for live, change in changes:
            live.change(change.job)
            self._on_end(live)
        for ending in endings:
            _remove_file(ending)

    async def _store_apart(self, endings: Sequence[Ending], error: Exception) -> None:
        """Store endings one by one, after an unexpected error of the store."""
        if len(endings) > 1:
            for ending in endings:
                await self._store_together([ending])
            return
        (ending,) = endings
        if ending.state is JobState.FAILED and ending.result is None:
            raise error
        # The result or the report cannot be stored. The error of one job must not end the others.
        _remove_file(ending)
        await self._store_together([Ending(ending.jobs, JobState.FAILED, describe_failure(error))])

    async def _changes(self, ending: Ending) -> list[tuple[LiveJob, JobChange]]:
        """Return the final records of the jobs of an ending."""
        values: dict[str, Any] = {"state": ending.state, "failure": ending.failure, "finished": time()}
        blobs: list[Blob] = []
        result = ending.result
        if result is not None:
            values |= {"summary": result.summary, "result_kind": result.kind}
            try:
                if result.result is not None:
                    data = result.result
                    blobs.append(await blob_of_file(data) if isinstance(data, Path) else Blob.of(data))
                    values |= {"result_digest": blobs[-1].digest, "result_size": blobs[-1].size}
            except OSError as error:
                failure = JobFailure(type(error).__name__, f"the result of the job cannot be read: {error}")
                return await self._changes(Ending(ending.jobs, JobState.FAILED, failure))
            if result.report is not None:
                blobs.append(Blob.of(result.report))
                values["report_digest"] = blobs[-1].digest
        changes: list[tuple[LiveJob, JobChange]] = []
        for live in ending.jobs:
            ended = replace(live.record, **values)
            if ended.state is JobState.DONE and ended.result_digest is None:
                # The model is its own result.
                ended = replace(ended, result_digest=ended.model_digest, result_size=ended.model_size)
            changes.append((live, JobChange(ended, blobs, live.last_events(ended))))
        return changes


def _remove_file(ending: Ending) -> None:
    """Remove the file of a result that is stored, or cannot be."""
    if ending.result is not None and isinstance(ending.result.result, Path):
        with suppress(OSError):
            ending.result.result.unlink()
