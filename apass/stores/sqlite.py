"""`SqliteStore`: results in one file, shared by any number of processes, whole after a crash."""

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
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that writes."""
_SMALL: Final = 65_536
"""Values of up to so many bytes are read in the loop: a worker thread would cost more."""
_FRESH: Final = 3600
"""Seconds within which a use of a result is not noted again."""
_DAMAGE: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteStore:
    """Keeps results in a SQLite file; a `Store`. Safe for many tasks, threads and processes at once, and after kill -9.

    The file is made with the first result. One that is damaged, or no database, is set aside as `NAME.damaged-...`,
    with a StoreWarning, and a new one is begun. A single result that is damaged is as if it was never there.

    It may be used as it is; `async with` opens the file, and closes it at the end.

    Parameters:
        path: the file; folders that are missing are made.
        limit: how many bytes of results are kept, about; those not used longest go first.

    Raises:
        ValueError: if `limit` is less than 1.
        StoreError: when it is entered or used, if the file cannot be read or written, or is another program's database.

    """

    def __init__(self, path: Path | str, *, limit: int = 2**32) -> None:
        if limit < 1:
            raise ValueError(f"limit must be a number of bytes of at least 1, not {limit!r}")
        self.path: Final = Path(path)
        """The file."""
        self._limit = limit
        # The loop reads by one connection while a thread writes, and perhaps waits, by the other.
        self._reader = _Connection(self.path)
        self._writer = _Connection(self.path)
        self._unweighed = limit

    async def __aenter__(self) -> Self:
        await run_sync(self._in_peace, self._reader, _nothing)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def get(self, key: str) -> bytes | None:
        """Return what was put under `key` last, None if there is nothing."""
        read = partial(_row, key, _SMALL)
        # To open the file may mean to wait for another process.
        is_open = self._reader.is_open()
        row = self._in_peace(self._reader, read) if is_open else await run_sync(self._in_peace, self._reader, read)
        if row is not None and row[1] is None:
            row = await run_sync(self._in_peace, self._reader, partial(_row, key, None))
        if row is None or row[1] is None:
            return None
        used, value, checksum = row[0], row[1], row[2]
        if crc32(value) != checksum:
            await run_sync(self._in_peace, self._writer, partial(_drop, key))
            return None
        if time() - used > _FRESH:
            await run_sync(self._in_peace, self._writer, partial(_touch, key))
        return value

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`."""
        await run_sync(self._in_peace, self._writer, partial(self._put, key, value))

    async def info(self) -> StoreInfo:
        """Say what there is."""
        entries, size = await run_sync(self._in_peace, self._reader, _weigh)
        return StoreInfo(place=str(self.path), entries=entries, size=size)

    async def clear(self) -> None:
        """Forget everything, and give the room on the disk back."""
        await run_sync(self._in_peace, self._writer, _clear)

    def close(self) -> None:
        """Close the file; it is opened again when it is used again."""
        self._reader.close()
        self._writer.close()

    def _put(self, key: str, value: bytes, one: sqlite3.Connection) -> None:
        row = (key, len(value), int(time()), crc32(value), value)
        one.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?)", row)
        self._unweighed += len(value)
        # To weigh all results takes a while, so it is done once a good part has been added.
        if self._unweighed > self._limit // 16:
            self._unweighed = 0
            _make_room(one, self._limit)

    def _in_peace(self, connection: "_Connection", work: Callable[[sqlite3.Connection], R]) -> R:
        """Do `work`; once more, with a new file, if this one turns out to be damaged."""
        try:
            return connection.do(work)
        except sqlite3.DatabaseError as error:
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in _DAMAGE:
                raise StoreError(f"the store {str(self.path)!r} cannot be used: {error}") from error
            self.close()
            if connection.is_of(self.path):
                _set_aside(self.path, error)
        try:
            return connection.do(work)
        except sqlite3.DatabaseError as error:
            raise StoreError(f"the store {str(self.path)!r} cannot be used: {error}") from error


class _Connection:
    """One connection, made when it is needed, and anew in a process that was forked off."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = Lock()
        self._open: sqlite3.Connection | None = None
        self._process = 0
        self._file: tuple[int, int] | None = None

    def do(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Return `work(connection)`; one at a time."""
        with self._lock:
            if self._open is None or self._process != os.getpid():
                self._open = self._connect()
                self._process = os.getpid()
            return work(self._open)

    def is_of(self, path: Path) -> bool:
        """Tell whether the file there is the one that was opened last, which another process may have set aside."""
        return self._file is None or self._file == _identity(path)

    def is_open(self) -> bool:
        """Tell whether it is there, made in this process."""
        return self._open is not None and self._process == os.getpid()

    def close(self) -> None:
        """Close it."""
        with self._lock:
            if self._open is not None and self._process == os.getpid():
                self._open.close()
            self._open = None

    def _connect(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the store {str(self._path)!r} cannot be made: {error.strerror}") from error
        self._file = _identity(self._path)
        made = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            _check_is_ours(made, self._path)
            # Readers never wait for writers, and what is written survives the death of the process.
            made.execute("PRAGMA journal_mode=WAL")
            made.execute("PRAGMA synchronous=NORMAL")
            made.execute(_SCHEMA)
            self._file = _identity(self._path)
        except BaseException:
            made.close()
            raise
        return made


def _check_is_ours(one: sqlite3.Connection, path: Path) -> None:
    """Return if the database is empty or one of results; it must not be changed otherwise."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    found = [name for (name,) in one.execute(tables)]
    columns = tuple(row[1] for row in one.execute("PRAGMA table_info(results)"))
    if found and (found != ["results"] or columns != _COLUMNS):
        raise StoreError(
            f"the store {str(path)!r} is a database of something else, and is left as it is; name another file"
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from others, None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _row(key: str, limit: int | None, one: sqlite3.Connection) -> tuple[int, bytes | None, int] | None:
    """Return when a result was used, its value (None if it is larger than `limit`) and its checksum."""
    value = "value" if limit is None else f"CASE WHEN size <= {limit} THEN value END"
    found: tuple[int, bytes | None, int] | None = one.execute(
        f"SELECT used, {value}, sum FROM results WHERE key = ?", (key,)
    ).fetchone()
    return found


def _nothing(_one: sqlite3.Connection) -> None:
    """Do nothing but open the file."""


def _drop(key: str, one: sqlite3.Connection) -> None:
    one.execute("DELETE FROM results WHERE key = ?", (key,))


def _touch(key: str, one: sqlite3.Connection) -> None:
    one.execute("UPDATE results SET used = ? WHERE key = ?", (int(time()), key))


def _weigh(one: sqlite3.Connection) -> tuple[int, int]:
    """Return how many results there are, and their bytes."""
    found: tuple[int, int] = one.execute("SELECT COUNT(*), COALESCE(SUM(size), 0) FROM results").fetchone()
    return found


def _clear(one: sqlite3.Connection) -> None:
    one.execute("DELETE FROM results")
    one.execute("VACUUM")
    one.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _make_room(one: sqlite3.Connection, limit: int) -> None:
    """Drop what was not used longest, until a tenth of the limit is free; nothing if all fits."""
    excess = _weigh(one)[1] - limit
    if excess <= 0:
        return
    excess += limit // 10
    gone: list[tuple[str]] = []
    with closing(one.execute("SELECT key, size FROM results ORDER BY used, key")) as rows:
        for key, size in rows:
            gone.append((key,))
            excess -= size
            if excess <= 0:
                break
    one.executemany("DELETE FROM results WHERE key = ?", gone)


def _set_aside(path: Path, error: Exception) -> None:
    """Rename a damaged file, and what SQLite has beside it."""
    kept = path.with_name(f"{path.name}.damaged-{time_ns()}")
    # Another process may have been faster.
    with suppress(FileNotFoundError):
        path.rename(kept)
        warnings.warn(f"the store {str(path)!r} is damaged ({error}); it is kept as {str(kept)!r}", StoreWarning, 3)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
