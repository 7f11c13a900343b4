"""`SqliteStore`: results in one file, shared by processes and safe after a crash."""

import os
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from time import time, time_ns
from types import TracebackType
from typing import Final, Self, TypeVar
from zlib import crc32

from anyio.to_thread import run_sync

from apass.core.store import StoreInfo
from apass.errors import StoreError, StoreWarning

__all__ = ["SqliteStore"]

R = TypeVar("R")

_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS results (
        key TEXT PRIMARY KEY, size INTEGER NOT NULL, used INTEGER NOT NULL, sum INTEGER NOT NULL, value BLOB NOT NULL
    ) WITHOUT ROWID
"""
_COLUMNS: Final = ("key", "size", "used", "sum", "value")
_BUSY_TIMEOUT: Final = 30.0
"""Seconds to wait for a lock that another process holds."""
_INLINE_LIMIT: Final = 65_536
"""Values up to this size are read in the event loop.

For these, a worker thread would cost more than the read.
"""
_USE_RESOLUTION: Final = 3600
"""Resolution in seconds of the time of last use; it limits the number of writes."""
_DAMAGE_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_INHERITED: Final[list[sqlite3.Connection]] = []
"""Connections that a parent process opened, kept so that a forked child never closes them."""


class SqliteStore:
    """A `Store` in a SQLite file, for concurrent tasks, threads and processes.

    It is consistent even after kill -9. The first result creates the file. If the file is damaged, or not a database,
    it is renamed to `NAME.damaged-...` with a StoreWarning, and a new file is created. A single damaged result counts
    as missing.

    The store may be used without `async with`. With it, the file is opened on entry and closed on exit.

    Parameters:
        path: the file. Missing folders are created.
        limit: approximate maximum size of all results in bytes. The least recently used results are removed first.

    Raises:
        ValueError: if `limit` is less than 1.
        StoreError: on entry or use, if the file cannot be read or written, or is another program's database.

    """

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
        if row is None or row[1] is None:
            return None
        used, value, checksum = row[0], row[1], row[2]
        if crc32(value) != checksum:
            await run_sync(self._run, self._writer, partial(_drop, key))
            return None
        if time() - used > _USE_RESOLUTION:
            await run_sync(self._run, self._writer, partial(_touch, key))
        return value

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`."""
        await run_sync(self._run, self._writer, partial(self._put, key, value))

    async def info(self) -> StoreInfo:
        """Return the number and size of the results."""
        entries, size = await run_sync(self._run, self._reader, _measure)
        return StoreInfo(place=str(self.path), entries=entries, size=size)

    async def clear(self) -> None:
        """Delete all results, and release the disk space."""
        await run_sync(self._run, self._writer, _clear)

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._reader.close()
        self._writer.close()

    def _put(self, key: str, value: bytes, connection: sqlite3.Connection) -> None:
        row = (key, len(value), int(time()), crc32(value), value)
        connection.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", row)
        self._unmeasured += len(value)
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
        except sqlite3.DatabaseError as error:
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in _DAMAGE_CODES:
                raise StoreError(f"the store {str(self.path)!r} cannot be used: {error}") from error
            self.close()
            if connection.is_of(self.path):
                _rename_damaged(self.path, error)
        try:
            return connection.run(work)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the store {str(self.path)!r} cannot be used: {error}") from error


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
            _check_schema(connection, self._path)
            # In WAL mode, readers do not wait for writers. With synchronous=NORMAL, written data survives the death
            # of the process.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(_SCHEMA)
            self._file = _identity(self._path)
        except BaseException:
            connection.close()
            raise
        return connection


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError unless the database is empty or a store."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    tables = [name for (name,) in connection.execute(query)]
    columns = tuple(row[1] for row in connection.execute("PRAGMA table_info(results)"))
    if tables and (tables != ["results"] or columns != _COLUMNS):
        raise StoreError(
            f"the store {str(path)!r} is a database with another schema and was not changed; use another file"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, or None if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _read_row(key: str, limit: int | None, connection: sqlite3.Connection) -> tuple[int, bytes | None, int] | None:
    """Return the time of last use, the value and the checksum of a result.

    The value is None if it is larger than `limit`.
    """
    value = "value" if limit is None else f"CASE WHEN size <= {limit} THEN value END"
    row: tuple[int, bytes | None, int] | None = connection.execute(
        f"SELECT used, {value}, sum FROM results WHERE key = ?", (key,)
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
    totals: tuple[int, int] = connection.execute("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM results").fetchone()
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
    excess += limit // 10
    evicted: list[tuple[str]] = []
    with closing(connection.execute("SELECT key, size FROM results ORDER BY used, key")) as rows:
        for key, size in rows:
            evicted.append((key,))
            excess -= size
            if excess <= 0:
                break
    connection.executemany("DELETE FROM results WHERE key = ?", evicted)


def _rename_damaged(path: Path, error: Exception) -> None:
    """Rename a damaged file, and delete SQLite's auxiliary files."""
    renamed = path.with_name(f"{path.name}.damaged-{time_ns()}")
    # Another process may have renamed it first.
    with suppress(FileNotFoundError):
        path.rename(renamed)
        warnings.warn(
            f"the store {str(path)!r} is damaged ({error}); it was renamed to {str(renamed)!r}", StoreWarning, 3
        )
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
