"""The blobs of `SqlJobStore`: statements that write, read and remove them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection, and_, bindparam, delete, exists, insert, not_, select

from apass.core.store import SEAL_SIZE, seal
from apass.service.job_store import CHUNK, Blob, DamagedBlobError
from apass.service.jobs import new_job_id
from apass.service.sql_schema import BLOBS, CHUNKS, UPLOADS, USES

__all__ = [
    "LARGE",
    "NewBlob",
    "UnreadableBlobError",
    "chunks_of",
    "drop_blob",
    "existing_blobs",
    "free_blobs",
    "purge_chunks",
    "read_chunk",
    "store_blobs",
    "write_chunks",
]

LARGE: Final = 4 * CHUNK
"""Bytes of blobs that are written in several transactions, between which other jobs are stored."""

PURGED: Final = 16
"""Chunks that are deleted in one transaction."""

_FIND: Final = select(BLOBS.c.digest).where(BLOBS.c.digest.in_(bindparam("digests", expanding=True)))
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
)


class UnreadableBlobError(Exception):
    """The file of a blob cannot be read."""

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


def write_chunks(connection: Connection, body: str, digest: str, first: int, chunks: Sequence[bytes]) -> None:
    """Write chunks of a blob that `store_blobs` adds later."""
    if not first:
        connection.execute(insert(UPLOADS), {"body": body})
    _insert_chunks(connection, [(body, digest, number, chunk) for number, chunk in enumerate(chunks, first)])


def _insert_chunks(connection: Connection, chunks: Sequence[tuple[str, str, int, bytes]]) -> None:
    """Insert chunks, each with its body, digest and number."""
    rows = [
        {"body": body, "number": number, "data": seal(f"{digest} {number}", data)}
        for body, digest, number, data in chunks
    ]
    if rows:
        connection.execute(insert(CHUNKS), rows)


def existing_blobs(connection: Connection, digests: Collection[str]) -> set[str]:
    """Return which blobs exist."""
    return set(connection.scalars(_FIND, {"digests": sorted(digests)})) if digests else set()


def store_blobs(connection: Connection, blobs: Mapping[str, NewBlob]) -> None:
    """Store blobs that do not exist.

    Raises:
        UnreadableBlobError: if the file of a blob cannot be read.

    """
    bodies = {blobs[digest].body or new_job_id(): blobs[digest] for digest in sorted(blobs)}
    connection.execute(
        insert(BLOBS),
        [{"digest": new.blob.digest, "size": new.blob.size, "body": body} for body, new in bodies.items()],
    )
    uploaded = [body for body, new in bodies.items() if new.body is not None]
    if uploaded:
        connection.execute(delete(UPLOADS).where(UPLOADS.c.body.in_(uploaded)))
    chunks: list[tuple[str, str, int, bytes]] = []
    size = 0
    for body, new in bodies.items():
        if new.body is not None:
            continue
        for number, chunk in enumerate(chunks_of(new.blob)):
            chunks.append((body, new.blob.digest, number, chunk))
            size += len(chunk)
            if size >= LARGE:
                _insert_chunks(connection, chunks)
                chunks, size = [], 0
    _insert_chunks(connection, chunks)


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
    body = connection.scalar(select(BLOBS.c.body).where(BLOBS.c.digest == digest))
    if body is not None:
        connection.execute(delete(BLOBS).where(BLOBS.c.digest == digest))
        connection.execute(insert(UPLOADS), {"body": body})


def free_blobs(connection: Connection, digests: Collection[str]) -> None:
    """Remove those blobs that no job refers to."""
    unused = connection.execute(_UNUSED, {"digests": sorted(digests)}).all()
    small = [row.body for row in unused if row.size <= LARGE]
    large = [row.body for row in unused if row.size > LARGE]
    if unused:
        connection.execute(delete(BLOBS).where(BLOBS.c.digest.in_([row.digest for row in unused])))
    if small:
        connection.execute(delete(CHUNKS).where(CHUNKS.c.body.in_(small)))
    if large:
        connection.execute(insert(UPLOADS), [{"body": body} for body in large])


def purge_chunks(connection: Connection, used: Collection[str]) -> bool:
    """Delete some chunks of no blob; return whether more may be left.

    Those of the uploads `used`, which are not over, stay.
    """
    body = connection.scalar(select(UPLOADS.c.body).where(UPLOADS.c.body.not_in(used)).limit(1))
    if body is None:
        return False
    numbers = list(connection.scalars(select(CHUNKS.c.number).where(CHUNKS.c.body == body).limit(PURGED)))
    connection.execute(delete(CHUNKS).where(CHUNKS.c.body == body, CHUNKS.c.number.in_(numbers)))
    if len(numbers) < PURGED:
        connection.execute(delete(UPLOADS).where(UPLOADS.c.body == body))
    return True
