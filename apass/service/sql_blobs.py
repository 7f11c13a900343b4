"""The blobs of `SqlJobStore`: statements that write, read and remove them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from apass.core.store import SEAL_SIZE, seal
from apass.errors import MissingExtraError
from apass.service.errors import JobsUnavailableError
from apass.service.job_store import CHUNK, Blob, DamagedBlobError
from apass.service.jobs import new_job_id
from apass.service.sql_schema import BLOBS, CHUNKS, LOCK_KEYS, UPLOADS, USES

try:
    from sqlalchemy import Connection, and_, bindparam, delete, exists, func, insert, not_, select, update
    from sqlalchemy.dialects import postgresql, sqlite
except ImportError as _error:
    raise MissingExtraError(f"SqlJobStore needs SQLAlchemy ({_error}): pip install 'apass[serve]'") from _error

__all__ = [
    "LARGE",
    "NewBlob",
    "UnreadableBlobError",
    "abandon_uploads",
    "chunks_of",
    "drop_blob",
    "free_blobs",
    "lock_blobs",
    "lock_removal",
    "purge_chunks",
    "read_chunk",
    "start_upload",
    "store_blobs",
    "stored_bytes",
    "write_chunks",
]

LARGE: Final = 4 * CHUNK
"""Bytes of blobs that are written in several transactions, between which other jobs are stored."""

PURGED: Final = 16
"""Chunks that are deleted in one transaction."""

_INTERRUPTED: Final = "the upload of a large model or result was interrupted; try again"

_FIND: Final = (
    select(BLOBS.c.digest)
    .where(BLOBS.c.digest.in_(bindparam("digests", expanding=True)))
    # In this order, so that two transactions never wait for each other.
    .order_by(BLOBS.c.digest)
    .with_for_update(read=True, key_share=True)
)
_ADD: Final = {
    "sqlite": sqlite.insert(BLOBS).on_conflict_do_nothing().returning(BLOBS.c.digest),
    "postgresql": postgresql.insert(BLOBS).on_conflict_do_nothing().returning(BLOBS.c.digest),
}
_READ: Final = (
    select(BLOBS.c.size, CHUNKS.c.data)
    .select_from(BLOBS)
    .outerjoin(CHUNKS, and_(CHUNKS.c.body == BLOBS.c.body, CHUNKS.c.number == bindparam("number")))
    .where(BLOBS.c.digest == bindparam("wanted"))
)
_UNUSED: Final = (
    select(BLOBS.c.digest, BLOBS.c.size, BLOBS.c.body)
    .where(BLOBS.c.digest.in_(bindparam("digests", expanding=True)))
    .where(not_(exists().where(USES.c.digest == BLOBS.c.digest)))
    .order_by(BLOBS.c.digest)
)


class UnreadableBlobError(Exception):
    """The file of a blob cannot be read.

    Parameters:
        digest: the blob.
        cause: the error of the file.

    """

    def __init__(self, digest: str, cause: OSError) -> None:
        super().__init__(str(cause))
        self.digest = digest
        """The blob."""
        self.cause = cause
        """The error of the file."""


@dataclass(frozen=True, slots=True)
class NewBlob:
    """A blob that a transaction stores."""

    blob: Blob
    """The blob."""
    body: str | None = None
    """The body of its chunks, if these are stored already."""


def chunks_of(blob: Blob) -> Iterator[bytes]:
    """Iterate over the chunks of a blob.

    Raises:
        UnreadableBlobError: if its file cannot be read, or has other bytes than the digest says.

    """
    if isinstance(blob.data, bytes):
        yield from (blob.data[start : start + CHUNK] for start in range(0, blob.size, CHUNK))
        return
    digest = sha256()
    try:
        with blob.data.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                yield chunk
        if digest.hexdigest() != blob.digest:
            raise OSError(f"{blob.data} was changed while it was stored; its SHA-256 is no longer {blob.digest}")
    except OSError as error:
        raise UnreadableBlobError(blob.digest, error) from error


def start_upload(connection: Connection, body: str, server: str) -> None:
    """Announce the chunks of a blob that `store_blobs` adds later."""
    connection.execute(insert(UPLOADS), {"body": body, "owner": server})


def write_chunks(
    connection: Connection, body: str, digest: str, server: str, first: int, chunks: Sequence[bytes]
) -> None:
    """Write chunks of an upload.

    Raises:
        JobsUnavailableError: if another server has taken this one for dead, and removes the upload.

    """
    uploads = select(UPLOADS.c.body).where(UPLOADS.c.body == body, UPLOADS.c.owner == server)
    if connection.scalar(uploads.with_for_update(read=True, key_share=True)) is None:
        raise JobsUnavailableError(_INTERRUPTED)
    _insert_chunks(connection, [_chunk(body, digest, first + index, chunk) for index, chunk in enumerate(chunks)])


def _insert_chunks(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    if rows:
        connection.execute(insert(CHUNKS), rows)


def _chunk(body: str, digest: str, number: int, data: bytes) -> dict[str, object]:
    return {"body": body, "number": number, "data": seal(f"{digest} {number}", data)}


def abandon_uploads(connection: Connection, bodies: Collection[str]) -> None:
    """Let `purge_chunks` delete the chunks of uploads."""
    connection.execute(update(UPLOADS).where(UPLOADS.c.body.in_(bodies)).values(owner=None))


def lock_blobs(connection: Connection, digests: Collection[str]) -> set[str]:
    """Return which blobs exist.

    No other transaction removes these before the end of this one.
    """
    return set(connection.scalars(_FIND, {"digests": sorted(digests)})) if digests else set()


def store_blobs(connection: Connection, blobs: Mapping[str, NewBlob], server: str) -> None:
    """Store those blobs that do not exist.

    No other transaction removes any of them before the end of this one.

    Raises:
        UnreadableBlobError: if the file of a blob cannot be read.
        JobsUnavailableError: if another server has taken this one for dead, and removed what it had uploaded.

    """
    missing = dict(blobs)
    while missing:
        for digest in lock_blobs(connection, missing):
            del missing[digest]
        if not missing:
            break
        rows = [
            {"digest": digest, "size": new.blob.size, "body": new.body or new_job_id()}
            for digest, new in sorted(missing.items())
        ]
        added = set(connection.scalars(_ADD[connection.dialect.name], rows))
        bodies = {str(row["body"]): missing[str(row["digest"])] for row in rows if row["digest"] in added}
        _store_bodies(connection, bodies, server)
        # Of the others, another transaction has stored some meanwhile. These are to be locked.
        for digest in added:
            del missing[digest]


def _store_bodies(connection: Connection, bodies: Mapping[str, NewBlob], server: str) -> None:
    rows: list[dict[str, object]] = []
    size = 0
    for body, new in bodies.items():
        if new.body is not None:
            uploads = delete(UPLOADS).where(UPLOADS.c.body == body, UPLOADS.c.owner == server)
            if connection.execute(uploads).rowcount != 1:
                raise JobsUnavailableError(_INTERRUPTED)
            continue
        for number, chunk in enumerate(chunks_of(new.blob)):
            rows.append(_chunk(body, new.blob.digest, number, chunk))
            size += len(chunk)
            if size >= LARGE:
                _insert_chunks(connection, rows)
                rows, size = [], 0
    _insert_chunks(connection, rows)


def read_chunk(connection: Connection, digest: str, number: int) -> bytes:
    """Return a chunk of a blob; no bytes at its end.

    Raises:
        KeyError: if there is no such blob.
        DamagedBlobError: if the chunk is missing or damaged.

    """
    row = connection.execute(_READ, {"wanted": digest, "number": number}).one_or_none()
    if row is None:
        raise KeyError(digest)
    try:
        expected = max(0, min(CHUNK, row.size - number * CHUNK))
        stored = b"" if row.data is None else bytes(row.data)
    except TypeError as error:  # SQLite has values of any type in any column
        raise DamagedBlobError(digest, f"chunk {number}: {error}") from error
    chunk = stored[SEAL_SIZE:]
    if len(chunk) != expected:
        raise DamagedBlobError(digest, f"chunk {number} has {len(chunk)} bytes instead of {expected}")
    if chunk and seal(f"{digest} {number}", chunk) != stored:
        raise DamagedBlobError(digest, f"chunk {number} has another digest")
    return chunk


def drop_blob(connection: Connection, digest: str) -> None:
    """Remove a damaged blob, so that it is stored again with the next job that has it."""
    bodies = list(connection.scalars(select(BLOBS.c.body).where(BLOBS.c.digest == digest).with_for_update()))
    connection.execute(delete(BLOBS).where(BLOBS.c.digest == digest))
    if bodies:
        connection.execute(insert(UPLOADS), [{"body": body, "owner": None} for body in bodies])


def stored_bytes(connection: Connection) -> int:
    """Return the size of all blobs."""
    return int(connection.scalar(select(func.coalesce(func.sum(BLOBS.c.size), 0))) or 0)


def lock_removal(connection: Connection) -> None:
    """Let no other server remove jobs or blobs before the end of the transaction.

    Two servers that remove the last two jobs with a blob at once would both see the job of the other one, and leave the
    blob.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCK_KEYS["removal"])))


def free_blobs(connection: Connection, digests: Collection[str]) -> None:
    """Remove those blobs that no job refers to; the caller has called `lock_removal`."""
    parameters = {"digests": sorted(digests)}
    candidates = [row.digest for row in connection.execute(_UNUSED, parameters)]
    if not candidates:
        return
    # A transaction that refers to a blob has locked it. After its end, this statement and the next one see the job.
    locked = select(BLOBS.c.digest).where(BLOBS.c.digest.in_(candidates)).order_by(BLOBS.c.digest)
    connection.execute(locked.with_for_update())
    unused = connection.execute(_UNUSED, {"digests": candidates}).all()
    small = [row.body for row in unused if row.size <= LARGE]
    large = [row.body for row in unused if row.size > LARGE]
    if unused:
        connection.execute(delete(BLOBS).where(BLOBS.c.digest.in_([row.digest for row in unused])))
    if small:
        connection.execute(delete(CHUNKS).where(CHUNKS.c.body.in_(small)))
    if large:
        connection.execute(insert(UPLOADS), [{"body": body, "owner": None} for body in large])


def purge_chunks(connection: Connection) -> bool:
    """Delete some chunks of blobs that were removed; return whether more may be left."""
    bodies = select(UPLOADS.c.body).where(UPLOADS.c.owner.is_(None)).limit(1).with_for_update(skip_locked=True)
    body = connection.scalar(bodies)
    if body is None:
        return False
    numbers = list(connection.scalars(select(CHUNKS.c.number).where(CHUNKS.c.body == body).limit(PURGED)))
    connection.execute(delete(CHUNKS).where(CHUNKS.c.body == body, CHUNKS.c.number.in_(numbers)))
    if len(numbers) < PURGED:
        connection.execute(delete(UPLOADS).where(UPLOADS.c.body == body))
    return True
