"""`SqliteStore`: results in one file, shared by processes and safe after a crash."""

import os
import sqlite3
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import time, time_ns
from types import TracebackType
from typing import Final, Self, TypeVar

from anyio.to_thread import run_sync

from apass.concurrency.thread_batches import ThreadBatches
from apass.core.store import SharedStore, StoreInfo, seal, unseal
from apass.errors import StoreError, StoreWarning

__all__ = ["SqliteStore"]

R = TypeVar("R")

_SCHEMA: Final = (
    "CREATE TABLE results (key TEXT PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL, value BLOB NOT NULL) "
    "WITHOUT ROWID"
)
_APPLICATION_ID: Final = int.from_bytes(b"apas")
"""The number by which a file is recognized as a store although its schema is damaged."""
_HEADER_SIZE: Final = 100
_BUSY_TIMEOUT: Final = 30.0
"""Seconds to wait for a lock that another process holds."""
_INLINE_LIMIT: Final = 65_536
"""Values up to this size are read in the event loop.

For these, a worker thread would cost more than the read.
"""
_USE_RESOLUTION: Final = 3600
"""Resolution in seconds of the time of last use; it limits the number of writes."""
_DAMAGE_CODES: Final = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    # The statements of this module are correct, so these errors are about the file.
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_INTERNAL,
    sqlite3.SQLITE_MISMATCH,
)
_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""Errors of the functions of `sqlite3`."""
_INHERITED: Final[list[sqlite3.Connection]] = []
"""Connections that a parent process opened, kept so that a forked child never closes them."""


class SqliteStore:
    """A `Store` in a SQLite file, for concurrent tasks, threads and processes.

    It is consistent even after kill -9. The first result creates the file. If the file is damaged, or not a database,
    it is renamed to `NAME.damaged-...` with a StoreWarning, and a new file is created. A single damaged result counts
    as missing, also with a StoreWarning.

    The store may be used without `async with`. With it, the file is opened on entry and closed on exit.

    Parameters:
        path: the file. Missing folders are created.
        limit: approximate maximum size of all results in bytes. The least recently used results are removed first.

    Raises:
        ValueError: if `limit` is less than 1.
        StoreError: on entry or use, if the file cannot be read or written, or is another program's database.

    """

    seals: Final = True
    """Values are sealed here, so that a damaged row is noticed and deleted."""

    def __init__(self, path: Path | str, *, limit: int = 2**32) -> None:
        if limit < 1:
            raise ValueError(f"limit must be a positive number of bytes, got {limit!r}")
        self.path: Final = Path(path)
        """The path of the file."""
        self._limit = limit
        # Two connections: the event loop reads from one while a thread writes to the other, and may wait for a lock.
        self._reader = _Connection(self.path)
        self._writer = _Connection(self.path)
        self._unmeasured = limit
        self._writes = ThreadBatches(self._put_all)

    async def __aenter__(self) -> Self:
        await run_sync(self._run, self._reader, _do_nothing)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def get(self, key: str) -> bytes | None:
        """Return the value stored under `key`, or None."""
        read = partial(_read_row, key, _INLINE_LIMIT)
        # Opening the file may wait for another process's lock, so it happens in a thread.
        is_open = self._reader.is_open()
        row = self._run(self._reader, read) if is_open else await run_sync(self._run, self._reader, read)
        if row is not None and row[1] is None:
            row = await run_sync(self._run, self._reader, partial(_read_row, key, None))
        if row is None:
            return None
        used, data = row
        value = unseal(key, data, f"the store {str(self.path)!r}")
        if value is None:
            await run_sync(self._run, self._writer, partial(_drop, key))
        elif time() - used > _USE_RESOLUTION:
            await run_sync(self._run, self._writer, partial(_touch, key))
        return value

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`; concurrent callers share one transaction."""
        await self._writes.run((key, value))

    async def info(self) -> StoreInfo:
        """Return the number and size of the results."""
        entries, size = await run_sync(self._run, self._reader, _measure)
        return StoreInfo(place=str(self.path), entries=entries, size=size)

    async def clear(self) -> None:
        """Delete all results, and release the disk space."""
        await run_sync(self._run, self._writer, _clear)

    def for_worker(self) -> Callable[[], SharedStore]:
        """Return a function that creates the store in a worker.

        The worker must share the file system.
        """
        # The working directory of a worker may differ.
        return partial(SqliteStore, self.path.absolute(), limit=self._limit)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._reader.close()
        self._writer.close()

    def _put_all(self, entries: Sequence[tuple[str, bytes]]) -> list[StoreError | None]:
        """Store entries; return the error of each, or None."""
        rows = [(key, len(value), int(time()), seal(key, value)) for key, value in entries]
        try:
            self._run(self._writer, partial(self._insert, rows))
        except StoreError as error:
            return [error] * len(rows)
        return [None] * len(rows)

    def _insert(self, rows: Sequence[tuple[str, int, int, bytes]], connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", rows)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self._unmeasured += sum(size for _, size, _, _ in rows)
        # Measuring all results is slow, so do it only after 1/16 of the limit has been added.
        if self._unmeasured > self._limit // 16:
            self._unmeasured = 0
            _evict(connection, self._limit)

    def _run(self, connection: "_Connection", work: Callable[[sqlite3.Connection], R]) -> R:
        """Run `work`.

        If the file is damaged, rename it, and run `work` once more with a new file.
        """
        try:
            return connection.run(work)
        except _ERRORS as error:
            if not _is_damage(error, self.path):
                raise self._error(error) from error
            self.close()
            if connection.is_of(self.path):
                if _is_foreign(self.path):
                    raise self._error(error) from error
                _rename_damaged(self.path, error)
        try:
            return connection.run(work)
        except _ERRORS as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> StoreError:
        return StoreError(f"the store {str(self.path)!r} cannot be used: {error}")


class _Connection:
    """A connection that is opened on first use, and again in a forked process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None
        self._process = 0
        self._file: tuple[int, int] | None = None

    def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Return `work(connection)`; calls are serialized by a lock."""
        with self._lock:
            self._keep_inherited()
            if self._open is None:
                self._open = self._connect()
                self._process = os.getpid()
            return work(self._open)

    def is_of(self, path: Path) -> bool:
        """Return whether `path` is still the file that was opened last.

        Another process may have renamed a damaged file and created a new one.
        """
        return self._file is None or self._file == _identity(path)

    def is_open(self) -> bool:
        """Return whether this process has opened the connection."""
        return self._open is not None and self._process == os.getpid()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._keep_inherited()
            if self._open is not None:
                self._open.close()
            self._open = None

    def _keep_inherited(self) -> None:
        """Move a connection of the parent process to `_INHERITED`."""
        # SQLite forbids closing it here: that can corrupt the file (sqlite.org/howtocorrupt.html, section 2.6).
        # Garbage collection closes it too, and since Python 3.13 with a ResourceWarning.
        if self._open is not None and self._process != os.getpid():
            _INHERITED.append(self._open)
            self._open = None

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the store {str(self._path)!r} cannot be created: {error.strerror}") from error
        self._file = _identity(self._path)
        connection = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            # Before the file is changed in any way: it may be another program's.
            if not _has_schema(connection, self._path):
                _create(connection, self._path)
            # In WAL mode, readers do not wait for writers. With synchronous=NORMAL, written data survives the death
            # of the process.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            self._file = _identity(self._path)
        except BaseException:
            connection.close()
            raise
        return connection


def _has_schema(connection: sqlite3.Connection, path: Path) -> bool:
    """Return whether the database has the table; False if that can be created.

    Raises:
        StoreError: if the database is another program's.
        DatabaseError: if the schema is damaged.

    """
    # A damaged name may be no valid text.
    query = "SELECT CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    tables = connection.execute(query).fetchall()
    if tables == [(b"results", _SCHEMA.encode())]:
        return True
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    if application_id == _APPLICATION_ID:
        error = sqlite3.DatabaseError("the schema is damaged")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error
    if tables:
        raise StoreError(
            f"the store {str(path)!r} is a database with another schema and was not changed; use another file"
        )
    return False


def _create(connection: sqlite3.Connection, path: Path) -> None:
    """Create the table."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have created it meanwhile.
        if not _has_schema(connection, path):
            connection.execute(_SCHEMA)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_damage(error: Exception, path: Path) -> bool:
    """Return whether an error is about the contents of the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    # A file whose header requires a later version of SQLite is reported as read-only.
    if isinstance(error, UnicodeDecodeError):  # the text of the error contains damaged text
        return True
    return code in _DAMAGE_CODES or (code == sqlite3.SQLITE_READONLY and max(_header(path)[18:20], default=0) > 2)


def _is_foreign(path: Path) -> bool:
    """Return whether a file is a database, and no store of this version.

    SQLite reports a database of a later version of SQLite as damaged, so a rename could harm another program.
    """
    header = _header(path)
    page_size = int.from_bytes(header[16:18])
    is_database = (
        header.startswith(b"SQLite format 3\0")
        and (page_size == 1 or (page_size >= 512 and page_size.bit_count() == 1))
        and header[21:24] == bytes((64, 32, 32))
    )
    return is_database and header[68:72] != _APPLICATION_ID.to_bytes(4)


def _header(path: Path) -> bytes:
    """Return the first bytes of a file; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_SIZE)
    except OSError:
        return b""


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, or None if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_row(key: str, limit: int | None, connection: sqlite3.Connection) -> tuple[int, bytes | None] | None:
    """Return the time of last use and the sealed value of a result.

    The value is None if it is larger than `limit`.
    """
    # The casts turn a damaged column of another type into a wrong value, which the seal reveals.
    value = "CAST(value AS BLOB)" if limit is None else f"CASE WHEN size <= {limit} THEN CAST(value AS BLOB) END"
    row: tuple[int, bytes | None] | None = connection.execute(
        f"SELECT COALESCE(CAST(used AS INTEGER), 0), {value} FROM results WHERE key = ?", (key,)
    ).fetchone()
    return row


def _do_nothing(_connection: sqlite3.Connection) -> None:
    """Do nothing; the caller opens the file."""


def _drop(key: str, connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM results WHERE key = ?", (key,))


def _touch(key: str, connection: sqlite3.Connection) -> None:
    connection.execute("UPDATE results SET used = ? WHERE key = ?", (int(time()), key))


def _measure(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the number of results and their total size."""
    # `TOTAL` does not overflow if damaged sizes are huge.
    query = "SELECT COUNT(*), CAST(TOTAL(size) AS INTEGER) FROM results"
    totals: tuple[int, int] = connection.execute(query).fetchone()
    return totals


def _clear(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM results")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _evict(connection: sqlite3.Connection, limit: int) -> None:
    """Delete the least recently used results if their size exceeds the limit.

    Delete until a tenth of the limit is free.
    """
    excess = _measure(connection)[1] - limit
    if excess <= 0:
        return
    connection.execute(
        """
        DELETE FROM results WHERE key IN (
            SELECT key FROM (
                SELECT key, TOTAL(size) OVER (ORDER BY used, key ROWS UNBOUNDED PRECEDING) - size AS before FROM results
            ) WHERE before < ?
        )
        """,
        (excess + limit // 10,),
    )


def _rename_damaged(path: Path, error: Exception) -> None:
    """Rename a damaged file together with SQLite's auxiliary files."""
    renamed = path.with_name(f"{path.name}.damaged-{time_ns()}")
    # First the log of latest changes: SQLite would apply it to the new file.
    for ending in ("-wal", "-journal"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + ending).rename(renamed.with_name(renamed.name + ending))
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    # Another process may have renamed it first.
    with suppress(FileNotFoundError):
        path.rename(renamed)
        warnings.warn(
            f"the store {str(path)!r} is damaged ({error}); it was renamed to {str(renamed)!r}", StoreWarning, 3
        )
