"""`Database`: the connections of `SqlJobStore`, and their errors in plain words."""

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Any, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, bindparam, create_engine, event, make_url, select, text, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from apass.errors import MissingExtraError
from apass.service.errors import JobsUnavailableError, StoreTakenError
from apass.service.server_locks import FileLock, SessionLock
from apass.service.sql_schema import APPLICATION_ID, SCHEMA, prepare_schema

__all__ = ["Database"]

R = TypeVar("R")

_FULL: Final = "53100"
"""The code of PostgreSQL for a full disk."""

RESERVE: Final = 20 << 20
"""Bytes that a SQLite store keeps for a full disk.

SQLite appends changes to its log before they free anything. The log has 4,000 pages of 4 KiB and one transaction before
SQLite copies them into the file, and that may grow by as much.
"""

LEAST_RESERVE: Final = 1 << 20
"""Bytes of the smallest reserve, for a disk with little room: enough to start the server and to remove a job."""

LARGE_STORE: Final = 16 << 20
"""Bytes of a store that needs a reserve."""

_ZEROS: Final = bytes(1 << 16)
"""A part of a reserve. One that is written as a whole would need its size in memory."""

SHARED_BYTES: Final = 32 << 10
"""Bytes of the file `NAME-shm`, which SQLite creates when it opens a file."""

CHECK_SECONDS: Final = 5.0
"""Seconds for the search for damage in a SQLite file when it is opened."""

MODE: Final = 0o600
"""The permissions of a new file, which contains the models of users."""

_SQLITE_REASONS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it cannot be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that it exists, and the permissions of its folder",
    sqlite3.SQLITE_CORRUPT: "it is damaged; replace it by a backup",
    sqlite3.SQLITE_NOTADB: "it is no database; use another file",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written",
}

_IS_OURS: Final = select(SCHEMA.c.server).where(SCHEMA.c.server == bindparam("token")).with_for_update(read=True)
"""Whether no other server has taken the database over. In PostgreSQL, none does before the end of the transaction."""

_END_OTHERS: Final = text(
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE relation = 'apass_schema'::regclass "
    "AND mode = 'RowShareLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Ends the transactions of a server that has lost its lock. One that is stopped would never end them."""

_PASSWORDS: Final = ("password", "sslpassword", "passfile")
"""Parts of the query of a URL that are not shown."""


class Database:
    """A SQLite file or a PostgreSQL server, which one server of jobs uses at a time.

    A lock decides which one that is. If the lock is lost, and another server takes the database over, no transaction
    of this one can write any more.

    The methods are called in worker threads.

    Parameters:
        path_or_url: a path, or a URL.
        timeout: seconds to wait for a connection or a lock.

    Raises:
        ValueError: if the URL is invalid, or of another kind of database.
        MissingExtraError: if the driver is not installed.

    """

    def __init__(self, path_or_url: Path | str, timeout: float) -> None:
        url = _parsed(path_or_url)
        self.is_remote: Final = url.drivername != "sqlite"
        """Whether it is a PostgreSQL server."""
        self._timeout = timeout
        self._engine: Engine | None = None
        self._token = ""
        """Names this use of the database."""
        self._secrets: list[str] = []
        if self.is_remote:
            secrets = [url.password, *(url.query.get(name) for name in _PASSWORDS)]
            self._secrets = [secret for secret in secrets if isinstance(secret, str) and secret]
            url = url.set(drivername="postgresql+psycopg")
            self._url = url
            shown = url.set(drivername="postgresql", query={})
            self.label: str = f"the store {shown.render_as_string(hide_password=True)!r}"
            """How messages name it."""
            # A missing driver is an error at once.
            self._lock = SessionLock(self._create_remote(), timeout)
        else:
            self._file = _SqliteFile(Path(url.database or "").absolute(), timeout)
            self.label = f"the store {str(self._file.path)!r}"

    @property
    def is_open(self) -> bool:
        """Whether it is open."""
        return self._engine is not None

    def open(self) -> None:
        """Lock the database, connect, and create the tables.

        Raises:
            StoreTakenError: if another server has locked it. The method may be called again; `close` ends the attempts.
            JobsUnavailableError: if the database cannot be used.

        """
        # Even to start on a full disk, SQLite needs space.
        self._with_reserve(self._open)

    def _open(self) -> None:
        try:
            with self._plain_errors():
                if self.is_remote:
                    self._lock.acquire(self.label)
                    self._engine = self._create_remote()
                else:
                    self._engine = self._file.open(self.label)
                with self._begin("fast") as connection:
                    self._take_over(connection)
                if not self.is_remote:
                    self._file.look_for_damage(self.label)
        except StoreTakenError:
            raise
        except BaseException:
            self.close()
            raise

    def _take_over(self, connection: Connection) -> None:
        """Let no other server write any more."""
        prepare_schema(connection, self.label)
        if self.is_remote:
            connection.execute(_END_OTHERS)
        self._token = token_hex(16)
        connection.execute(update(SCHEMA).values(server=self._token))

    def close(self) -> None:
        """Close the connections, and unlock the database."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()
        if self.is_remote:
            self._lock.release()
        else:
            self._file.unlock()

    def write(self, function: Callable[[Connection], R], *, is_durable: bool = True) -> R:
        """Call a function in a transaction, and return its result.

        The function may be called several times.

        Parameters:
            function: gets a connection.
            is_durable: whether the changes must survive a loss of power. They always survive the end of the process.

        Raises:
            StoreTakenError: if another server has taken the database over.
            JobsUnavailableError: if the database cannot be written.

        """
        kind = "durable" if is_durable else "fast"
        try:
            return self._write(function, kind)
        except JobsUnavailableError as error:
            if self.is_remote or not error.is_full:
                raise
        with suppress(JobsUnavailableError), self._plain_errors():
            # Of the file, removed jobs have left pages free. Otherwise it has to grow before the log becomes smaller.
            if not self._file.empty_log() and self._file.release_reserve():
                self._renew_reserve()
        return self._write(function, kind)

    def _write(self, function: Callable[[Connection], R], kind: str) -> R:
        with self._plain_errors(), self._begin(kind) as connection:
            if connection.scalar(_IS_OURS, {"token": self._token}) is None:
                raise StoreTakenError(
                    f"another server has taken over {self.label}; end this one, or start it again as a standby"
                )
            return function(connection)

    @contextmanager
    def _begin(self, kind: str) -> Generator[Connection]:
        with self._connect().execution_options(apass=kind) as connection, connection.begin():
            yield connection

    def write_reserved(self, function: Callable[[Connection], R], *, is_removal: bool) -> R:
        """Call a function that must succeed on a full disk.

        It starts or closes a server, or removes rows. The reserve gives it room. The changes survive the end of the
        process, and need not survive a loss of power.

        Parameters:
            function: gets a connection.
            is_removal: whether to create the reserve: a store of which nothing was removed need not have one.

        Raises:
            JobsUnavailableError: if the database cannot be written.

        """
        if is_removal and not self.is_remote:
            self._file.keep_reserve()
        return self._with_reserve(partial(self.write, function, is_durable=False))

    def _with_reserve(self, call: Callable[[], R]) -> R:
        """Call a function; on a full disk, again in the space of the reserve."""
        try:
            return call()
        except JobsUnavailableError as error:
            if self.is_remote or not error.is_full or not self._file.release_reserve():
                raise
        try:
            return call()
        finally:
            self._renew_reserve()

    def _renew_reserve(self) -> None:
        """Keep a reserve again, of the space that the last one gave to the log."""
        with suppress(JobsUnavailableError), self._plain_errors():
            self._file.empty_log()
        self._file.keep_reserve(part=1.0)

    def check_room(self, size: int) -> None:
        """Raise JobsUnavailableError if the disk has no room for jobs.

        The disk of a PostgreSQL server is unknown.

        Parameters:
            size: bytes of the new jobs, and of the results of all jobs that have not ended.

        """
        if self.is_remote or self._file.room() >= size:
            return
        with suppress(JobsUnavailableError), self._plain_errors():
            self._file.empty_log()
            if self._file.room() + self._file.free_pages() >= size:
                return
        self._file.keep_reserve()
        raise JobsUnavailableError(
            f"{self.label} cannot be used: the disk is full (the job, and the results of those that wait, may need "
            f"{size / (1 << 20):.1f} MiB); free some space, or remove jobs",
            is_full=True,
        )

    def read(self, functions: Sequence[Callable[[Connection], R]]) -> Sequence[R | BaseException]:
        """Call functions that read, and return the result or the error of each."""
        try:
            with self._plain_errors(), self._connect() as connection:
                return [self._read(function, connection) for function in functions]
        except JobsUnavailableError as error:
            return [error] * len(functions)

    def _read(self, function: Callable[[Connection], R], connection: Connection) -> R | BaseException:
        try:
            with self._plain_errors():
                return function(connection)
        except JobsUnavailableError as error:
            # A transaction that failed must not make the next function fail.
            with self._plain_errors():
                connection.rollback()
            return error
        except Exception as error:
            return error

    def _connect(self) -> Connection:
        if self._engine is None:
            raise JobsUnavailableError(f"{self.label} is not open; use it within `async with Optimizer(...)`")
        if not self.is_remote:
            self._file.check()
        return self._engine.connect()

    def _create_remote(self) -> Engine:
        # Each end notices after this time that the other one is cut off, and not after the hours that TCP allows.
        seconds = max(2, round(self._timeout))
        settings = {
            "lock_timeout": round(self._timeout * 1000),
            "tcp_keepalives_idle": seconds,
            "tcp_keepalives_interval": 2,
            "tcp_keepalives_count": 3,
            "tcp_user_timeout": seconds * 1000,
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        given = self._url.query
        arguments: dict[str, object] = {
            "connect_timeout": seconds,
            "keepalives_idle": seconds,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": seconds * 1000,
        }
        arguments = {name: value for name, value in arguments.items() if name not in given}
        # Of two values, the server takes the last.
        arguments["options"] = f"{options} {given['options']}" if "options" in given else options
        try:
            return create_engine(
                self._url,
                # The statements rely on it: each one sees what was committed before it.
                isolation_level="READ COMMITTED",
                pool_pre_ping=True,
                pool_use_lifo=True,
                pool_timeout=self._timeout,
                hide_parameters=True,
                connect_args=arguments,
            )
        except ImportError as error:
            raise MissingExtraError(
                f"a store in PostgreSQL needs psycopg ({error}): pip install 'apass[postgres]'"
            ) from error

    @contextmanager
    def _plain_errors(self) -> Generator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, UnicodeError) as error:
            # sqlite3 raises UnicodeError for a message that quotes a damaged schema, or a damaged text as a parameter.
            raise self._plain(error) from error

    def _plain(self, error: Exception) -> JobsUnavailableError:
        """Return an error of the database in plain words."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, sqlite3.Error):
            code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_IOERR and self._file.has_full_disk():
                # SQLite has no error of its own for a file `NAME-shm` that finds no room.
                code = sqlite3.SQLITE_FULL
            reason = _SQLITE_REASONS.get(code)
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                reason = f"another program has locked it for more than {self._timeout:g} s"
            message = str(cause) if reason is None else f"{reason} ({cause})"
            return JobsUnavailableError(f"{self.label} cannot be used: {message}", is_full=code == sqlite3.SQLITE_FULL)
        message = " ".join(str(cause).split())
        for secret in self._secrets:
            message = message.replace(secret, "***")
        is_full = getattr(cause, "sqlstate", None) == _FULL
        if is_full:
            message = f"the disk is full ({message})"
        return JobsUnavailableError(f"{self.label} cannot be used: {message}", is_full=is_full)


def _parsed(path_or_url: Path | str) -> URL:
    """Return the URL of a database. The driver of a file is `sqlite`."""
    if isinstance(path_or_url, Path) or "://" not in path_or_url:
        if not str(path_or_url):
            raise ValueError("the path of the store is empty; write the path of a file, or postgresql://...")
        return URL.create("sqlite", database=str(path_or_url))
    try:
        url = make_url(path_or_url)
    except (ArgumentError, ValueError):
        # The message of the cause may contain the password.
        raise ValueError(
            "the URL of the store is invalid; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        ) from None
    name = url.drivername
    if name in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql")
    if name != "sqlite":
        raise ValueError(f"a store is the path of a SQLite file or postgresql://..., got a URL of {name!r}")
    if not url.database or url.database == ":memory:":
        raise ValueError("the URL of a SQLite store has no file; write sqlite:///PATH")
    return url


class _SqliteFile:
    """The file of a database, which one process uses at a time.

    Parameters:
        path: the file.
        timeout: seconds to wait for a lock of another program, such as one that makes a backup.

    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path: Final = path
        self._reserve = path.with_name(f"{path.name}.reserve")
        self._is_large = False
        self._timeout = timeout
        self._may_create = False
        self._identity: tuple[int, int] | None = None
        self._lock = FileLock(path.with_name(f"{path.name}.lock"))

    def open(self, label: str) -> Engine:
        """Lock the file, and return an engine; the file is created if it does not exist."""
        if not self.path.parent.is_dir():
            raise JobsUnavailableError(f"{label} cannot be created: the folder {str(self.path.parent)!r} is missing")
        if self.path.is_dir():
            raise JobsUnavailableError(f"{label} cannot be used: it is a folder; write the path of a file")
        # First of all: even to lock it, or to change its journal mode, would disturb another program.
        self._check_owner(label)
        self._lock.acquire(label)
        try:
            with suppress(OSError):  # SQLite reports it, unless the file exists
                # SQLite would let all users read the models, and gives its other files the permissions of this one.
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, MODE))
            engine = create_engine("sqlite://", creator=self._connect, poolclass=QueuePool, hide_parameters=True)
            event.listen(engine, "begin", _begin)
            self._may_create = True
            engine.connect().close()
            # A file that is deleted later must not be replaced by an empty one.
            self._may_create = False
            self._identity = self._current()
        except BaseException:
            self.unlock()
            raise
        return engine

    def check(self) -> None:
        """Raise JobsUnavailableError unless the path still names the file that was opened."""
        if self._identity is not None and self._current() != self._identity:
            raise JobsUnavailableError(
                f"the store {str(self.path)!r} was deleted or replaced while it was open; restore it, and start again"
            )

    def has_full_disk(self) -> bool:
        """Return whether the disk has no room for the smallest file of SQLite."""
        return self._free() < SHARED_BYTES

    def room(self) -> float:
        """Return how many bytes of the disk are free for jobs."""
        free = self._free()
        return free if self._reserve.exists() else free - min(RESERVE, free / 2)

    def _free(self) -> float:
        try:
            return shutil.disk_usage(self.path.parent).free
        except OSError:
            return inf  # the next statement reports that the folder is missing

    def free_pages(self) -> int:
        """Return how many bytes of the file are free for jobs."""
        with closing(self._raw("ro")) as connection:
            (count,) = connection.execute("PRAGMA freelist_count").fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
        return int(count * size)

    def keep_reserve(self, part: float = 0.5) -> None:
        """Create a file that occupies space, if the disk has room for it.

        Parameters:
            part: the part of the free space that it may occupy.

        """
        with suppress(OSError):
            size = int(min(RESERVE, self._free() * part))
            if size >= LEAST_RESERVE and not self._reserve.exists():
                # Another thread may do the same.
                with self._reserve.open("xb") as file:
                    try:
                        for _ in range(size >> 16):
                            file.write(_ZEROS)
                        file.flush()
                    except OSError:
                        self._reserve.unlink()

    def release_reserve(self) -> bool:
        """Free the space of the reserve; return whether there was one."""
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    def empty_log(self) -> bool:
        """Copy the log of SQLite into the file, and free its space.

        Return whether that was possible.
        """
        with closing(self._raw("rw")) as connection:
            try:
                (is_blocked, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_FULL:
                    raise
                return False
        return not is_blocked

    def look_for_damage(self, label: str) -> None:
        """Raise JobsUnavailableError if a table or an index is damaged.

        A large file is read for a few seconds only. Values have digests of their own.
        """
        end = monotonic() + CHECK_SECONDS
        with closing(self._raw("ro")) as connection:
            connection.set_progress_handler(lambda: monotonic() > end, 10_000)
            try:
                (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            except sqlite3.OperationalError as error:
                if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                    return
                raise
        if found != "ok":
            raise JobsUnavailableError(
                f"{label} is damaged: {found}; replace it by a backup, or by what `sqlite3 {self.path.name} .recover` "
                "can read of it"
            )

    def unlock(self) -> None:
        """Let another process use the file."""
        self._identity = None
        self._lock.release()

    def _current(self) -> tuple[int, int]:
        try:
            status = self.path.stat()
        except OSError:
            return (0, 0)
        if status.st_size >= LARGE_STORE and not self._is_large:
            self._is_large = True
            self.keep_reserve()
        return status.st_dev, status.st_ino

    def _connect(self) -> sqlite3.Connection:
        mode = "rwc" if self._may_create else "rw"
        connection = self._raw(mode)
        try:
            # In WAL mode, readers do not wait for writers.
            connection.execute("PRAGMA journal_mode=WAL")
            # Pages that change often are copied into the file less often: 8% less time for each new job.
            connection.execute("PRAGMA wal_autocheckpoint=4000")
            connection.execute("PRAGMA journal_size_limit=67108864")
        except BaseException:
            connection.close()
            raise
        # A damaged text is an error of its record, and not of the statement.
        connection.text_factory = _decoded
        return connection

    def _raw(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}",
            uri=True,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
        )

    def _check_owner(self, label: str) -> None:
        """Raise JobsUnavailableError if the file is a database of another program."""
        if not self.path.exists():
            return
        with closing(self._raw("ro")) as connection:
            (number,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if number != APPLICATION_ID and (number or tables):
            raise JobsUnavailableError(
                f"{label} is a database of another program and was not changed; use another file"
            )


def _begin(connection: Connection) -> None:
    """Begin a transaction of SQLite; the driver does not do it."""
    kind = connection.get_execution_options().get("apass")
    if kind is None:
        connection.exec_driver_sql("BEGIN")
        return
    # FULL writes the changes to the disk at each commit, NORMAL at the next checkpoint.
    level = "FULL" if kind == "durable" else "NORMAL"
    if connection.info.get("synchronous") != level:
        raw: Any = connection.connection.dbapi_connection
        raw.execute(f"PRAGMA synchronous={level}")
        connection.info["synchronous"] = level
    # A transaction that begins by reading may fail when it writes.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
