"""`MemoryJobStore`: jobs in the memory of the process."""

import pickle
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Final

import anyio

from apass.service.job_store import CHUNK, Blob, JobChange, JobPage, JobQuery
from apass.service.jobs import JobEvent, JobRecord, JobState

__all__ = ["MemoryJobStore"]


@dataclass(slots=True)
class _StoredBlob:
    data: bytes
    uses: int = 0
    """How many jobs refer to it."""


class MemoryJobStore:
    """A `JobStore` without durability: jobs end with the process."""

    is_durable: bool = False
    """Jobs do not survive the end of the process."""

    def __init__(self) -> None:
        self._jobs: Final[dict[str, JobRecord]] = {}
        self._ids: Final[list[str]] = []
        """The ids of all jobs, sorted."""
        self._blobs: Final[dict[str, _StoredBlob]] = {}
        self._events: Final[dict[str, list[bytes]]] = {}
        """Pickled lists of the events of jobs.

        A job has dozens of objects in its events, and a collection of garbage visits each object of the process.
        """
        self._idempotent: Final[dict[tuple[str, str], str]] = {}
        self._done: Final[dict[tuple[str, str], str]] = {}

    async def open(self, *, wait: bool = False) -> Sequence[JobRecord]:
        """Return no jobs: there are none."""
        return ()

    async def close(self) -> None:
        """Do nothing."""

    async def add(self, job: JobRecord, model: Blob) -> JobRecord:
        """Store a job; see `JobStore`."""
        data = await _bytes_of(model)
        for digest in (job.result_digest, job.report_digest):
            if digest is not None and digest != model.digest and digest not in self._blobs:
                raise KeyError(digest)
        if job.idempotency_key is not None:
            earlier = self._idempotent.setdefault((job.tenant, job.idempotency_key), job.id)
            if earlier != job.id:
                return self._jobs[earlier]
        self._jobs[job.id] = job
        insort(self._ids, job.id)
        self._use(model.digest, data)
        self._use_results(job, {})
        return job

    async def find(self, job_id: str) -> JobRecord | None:
        """Return a job."""
        return self._jobs.get(job_id)

    async def find_done(self, tenant: str, key: str) -> JobRecord | None:
        """Return a job that is done; see `JobStore`."""
        job_id = self._done.get((tenant, key))
        return None if job_id is None else self._jobs[job_id]

    async def find_idempotent(self, tenant: str, idempotency_key: str) -> JobRecord | None:
        """Return a job by its idempotency key."""
        job_id = self._idempotent.get((tenant, idempotency_key))
        return None if job_id is None else self._jobs[job_id]

    async def list(self, query: JobQuery) -> JobPage:
        """Return a page of jobs."""
        matches: list[JobRecord] = []
        for job_id in reversed(self._ids):
            job = self._jobs[job_id]
            if (query.before is None or job_id < query.before) and _matches(job, query):
                if len(matches) == query.limit:
                    return JobPage(matches, matches[-1].id)
                matches.append(job)
        return JobPage(matches, None)

    async def count(self, tenant: str | None = None) -> Mapping[JobState, int]:
        """Return the number of jobs in each state."""
        return Counter(job.state for job in self._jobs.values() if tenant in (None, job.tenant))

    async def update(self, changes: Sequence[JobChange]) -> Sequence[bool]:
        """Make changes of unfinished jobs; see `JobStore`."""
        contents = [{blob.digest: await _bytes_of(blob) for blob in change.blobs} for change in changes]
        return [self._update(change, content) for change, content in zip(changes, contents, strict=True)]

    def _update(self, change: JobChange, contents: Mapping[str, bytes]) -> bool:
        job = change.job
        stored = self._jobs.get(job.id)
        if stored is None or stored.ended:
            return stored == job
        self._jobs[job.id] = job
        self._use_results(job, contents)
        if change.events:
            events = [(event.id, event.kind, event.time, event.data) for event in change.events]
            self._events.setdefault(job.id, []).append(pickle.dumps(events, pickle.HIGHEST_PROTOCOL))
        return True

    def _use_results(self, job: JobRecord, contents: Mapping[str, bytes]) -> None:
        for digest in (job.result_digest, job.report_digest):
            if digest is not None:
                self._use(digest, contents.get(digest))
        if job.state is JobState.DONE:
            self._done[job.tenant, job.key] = job.id

    async def read(self, digest: str, index: int) -> bytes:
        """Return a chunk of a blob."""
        return self._blobs[digest].data[index * CHUNK : (index + 1) * CHUNK]

    async def events(self, job_id: str, after: int) -> Sequence[JobEvent]:
        """Return the events of a job."""
        parts = self._events.get(job_id, ())
        return [JobEvent(*values) for part in parts for values in pickle.loads(part) if values[0] > after]

    async def expire(self, max_age: float | None, max_bytes: int | None) -> int:
        """Remove old jobs; see `JobStore`."""
        limit = float("-inf") if max_age is None else time() - max_age
        total = sum(len(blob.data) for blob in self._blobs.values())
        removed = 0
        for job_id in tuple(self._ids):
            job = self._jobs[job_id]
            is_too_large = max_bytes is not None and total > max_bytes
            if job.ended and (is_too_large or (job.finished or 0.0) < limit):
                total -= self._forget(job)
                removed += 1
        return removed

    async def remove(self, job_id: str) -> bool:
        """Remove a job that has ended."""
        job = self._jobs.get(job_id)
        if job is None or not job.ended:
            return False
        self._forget(job)
        return True

    def _use(self, digest: str, data: bytes | None) -> None:
        if data is not None:
            self._blobs.setdefault(digest, _StoredBlob(data))
        self._blobs[digest].uses += 1

    def _forget(self, job: JobRecord) -> int:
        """Remove a job, and return the number of bytes that this frees."""
        freed = 0
        for digest in (job.model_digest, job.result_digest, job.report_digest):
            if digest is not None:
                blob = self._blobs[digest]
                blob.uses -= 1
                if not blob.uses:
                    freed += len(blob.data)
                    del self._blobs[digest]
        del self._jobs[job.id]
        del self._ids[bisect_left(self._ids, job.id)]
        self._events.pop(job.id, None)
        if self._done.get((job.tenant, job.key)) == job.id:
            del self._done[job.tenant, job.key]
        if job.idempotency_key is not None:
            del self._idempotent[job.tenant, job.idempotency_key]
        return freed


async def _bytes_of(blob: Blob) -> bytes:
    return blob.data if isinstance(blob.data, bytes) else await anyio.Path(blob.data).read_bytes()


def _matches(job: JobRecord, query: JobQuery) -> bool:
    text = query.text.lower()
    return (
        query.tenant in (None, job.tenant)
        and (not query.states or job.state in query.states)
        and (text in job.name.lower() or text in job.pipeline.lower() or job.id.startswith(text))
    )
