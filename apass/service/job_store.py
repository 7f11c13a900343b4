"""`JobStore`: where jobs, models, results and events are kept."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Final, Protocol

import anyio.to_thread

from apass.service.errors import NoResultError
from apass.service.jobs import JobEvent, JobRecord, JobState
from apass.util.checks import check_type, is_count

__all__ = [
    "CHUNK",
    "Blob",
    "DamagedBlobError",
    "JobChange",
    "JobPage",
    "JobQuery",
    "JobStore",
    "blob_of_file",
    "check_blob",
    "copy_blob",
    "missing_blob",
    "read_blob",
    "write_blob",
]

CHUNK: Final = 1 << 20
"""Bytes of a blob that are read or written at once."""


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of a model, a result or a report."""

    digest: str
    """Their SHA-256. Equal blobs are stored once."""
    size: int
    """Their number."""
    data: bytes | Path
    """The bytes, or a file that contains them."""

    @classmethod
    def of(cls, data: bytes) -> "Blob":
        """Return the blob of some bytes."""
        return cls(sha256(data).hexdigest(), len(data), data)


@dataclass(frozen=True, slots=True)
class JobChange:
    """A new record of a job, with what belongs to it."""

    job: JobRecord
    """The record."""
    blobs: Sequence[Blob] = ()
    """New blobs."""
    events: Sequence[JobEvent] = ()
    """New events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs to list. The latest job comes first."""

    tenant: str | None
    """The owner; None for all tenants."""
    states: Collection[JobState] = ()
    """The states; all if empty."""
    text: str = ""
    """A part of the name, the pipeline or the beginning of the id, in upper or lower case."""
    before: str | None = None
    """The id of the last job of the page before."""
    limit: int = 50
    """The number of jobs of the page."""

    def __post_init__(self) -> None:
        """Check the values, with which a store would fail or return nothing."""
        if not is_count(self.limit):
            raise ValueError(f"limit must be a positive int, got {self.limit!r}")
        known: frozenset[object] = frozenset(JobState)
        if isinstance(self.states, str) or not known.issuperset(self.states):
            raise ValueError(f"states must be a list of {', '.join(JobState)}, got {self.states!r}")
        check_type("text", self.text, str)


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs."""

    jobs: Sequence[JobRecord]
    """The jobs."""
    next: str | None
    """The value of `JobQuery.before` for the next page; None at the end."""


class DamagedBlobError(KeyError):
    """A blob has other bytes than were stored; it counts as missing."""

    def __init__(self, digest: str, reason: str) -> None:
        super().__init__(digest)
        self.reason = reason
        """What is wrong."""

    def __str__(self) -> str:
        return f"the blob {self.args[0]} in the store is damaged: {self.reason}"


class JobStore(Protocol):
    """Keeps jobs. The optimizer calls it from one event loop.

    One server at a time uses a store. Every method raises JobsUnavailableError if the store cannot be read or written,
    and StoreTakenError if it cannot be written because another server has taken it over.
    """

    # It is a Protocol because the implementations share no code.

    is_durable: bool
    """Whether jobs survive the end of the process."""

    async def open(self, *, wait: bool = False) -> Sequence[JobRecord]:
        """Open the store, and return the unfinished jobs.

        Parameters:
            wait: whether to wait while another server uses the store.

        Raises:
            StoreTakenError: if another server uses the store.

        """
        ...

    async def close(self) -> None:
        """Close the store, so that another server may use it."""
        ...

    async def add(self, job: JobRecord, model: Blob) -> JobRecord:
        """Store a new job, which survives the end of the process from then on.

        If the tenant has a job with the same idempotency key, change nothing and return that job. The new job may have
        ended: its result and report are then those of an equal job.

        Raises:
            KeyError: if the result or the report does not exist any more.

        """
        ...

    async def find(self, job_id: str) -> JobRecord | None:
        """Return a job."""
        ...

    async def find_done(self, tenant: str, key: str) -> JobRecord | None:
        """Return the latest job of a tenant that is done and has this key."""
        ...

    async def find_idempotent(self, tenant: str, idempotency_key: str) -> JobRecord | None:
        """Return the job of a tenant with an idempotency key."""
        ...

    async def list(self, query: JobQuery) -> JobPage:
        """Return a page of jobs."""
        ...

    async def count(self, tenant: str | None = None) -> Mapping[JobState, int]:
        """Return the number of jobs in each state that occurs."""
        ...

    async def update(self, changes: Sequence[JobChange]) -> Sequence[bool]:
        """Make changes of unfinished jobs; return for each whether it was made.

        A change of a job that has ended, or is unknown, has no effect. The change that has ended it counts as made, so
        that a call that has failed may be repeated. The new record may have ended. Its blobs are among those of the
        change, or stored for another job.
        """
        ...

    async def read(self, digest: str, index: int) -> bytes:
        """Return the bytes of a blob from `index * CHUNK`; no bytes at its end.

        Raises:
            KeyError: if there is no such blob.
            DamagedBlobError: if its bytes are not those that were stored. It is removed, so that it is stored again
                with the next job that has it.

        """
        ...

    async def events(self, job_id: str, after: int) -> Sequence[JobEvent]:
        """Return the stored events of a job that come after a number."""
        ...

    async def expire(self, max_age: float | None, max_bytes: int | None) -> int:
        """Remove jobs that ended too long ago; return how many.

        If all blobs have more than `max_bytes`, the oldest jobs that have ended are removed.
        """
        ...

    async def remove(self, job_id: str) -> bool:
        """Remove a job that has ended; return whether it was there."""
        ...


async def copy_blob(store: JobStore, digest: str, write: Callable[[bytes], Awaitable[object]]) -> None:
    """Call a function with each chunk of a blob.

    Raises:
        KeyError: if there is no such blob.
        DamagedBlobError: if it is damaged. Chunks may have been written.

    """
    current, index = sha256(), 0
    while chunk := await store.read(digest, index):
        current.update(chunk)
        await write(chunk)
        index += 1
        if len(chunk) < CHUNK:
            break
    if current.hexdigest() != digest:
        raise DamagedBlobError(digest, "the SHA-256 of its bytes is another one")


async def read_blob(store: JobStore, digest: str) -> bytes:
    """Return the bytes of a blob; see `copy_blob` for errors."""
    chunks: list[bytes] = []

    async def keep(chunk: bytes) -> None:
        chunks.append(chunk)

    await copy_blob(store, digest, keep)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def check_blob(store: JobStore, digest: str) -> None:
    """Read a blob; see `copy_blob` for errors."""

    async def drop(chunk: bytes) -> None:
        """Do nothing."""

    await copy_blob(store, digest, drop)


def missing_blob(name: str, error: KeyError) -> NoResultError:
    """Return the error for a blob that cannot be read.

    Parameters:
        name: what it is, such as `the result of job 1`.
        error: what the store raised.

    """
    if isinstance(error, DamagedBlobError):
        return NoResultError(f"{name} is damaged in the store ({error.reason}); submit the model again")
    return NoResultError(f"{name} has expired")


async def write_blob(store: JobStore, digest: str, path: Path) -> None:
    """Write the bytes of a blob to a new file, which is removed if that fails.

    See `copy_blob` for errors.
    """
    try:
        async with await anyio.open_file(path, "xb") as file:
            await copy_blob(store, digest, file.write)
    except FileExistsError:
        raise
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.Path(path).unlink(missing_ok=True)
        raise


async def blob_of_file(path: Path) -> Blob:
    """Return the blob of a file."""
    return await anyio.to_thread.run_sync(_blob_of_file, path)


def _blob_of_file(path: Path) -> Blob:
    with path.open("rb") as file:
        return Blob(file_digest(file, "sha256").hexdigest(), file.tell(), path)
