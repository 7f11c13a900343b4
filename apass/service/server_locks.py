"""The locks of `SqlJobStore`, by which one server at a time uses a store."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from socket import gethostname
from threading import Event, Thread
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from apass.service.errors import JobsUnavailableError, StoreTakenError
from apass.util.file_locks import TAKEN, close_in_forks, lock_now, unlock

__all__ = ["FileLock", "SessionLock"]

MODE: Final = 0o600
"""The permissions of a file, which may name the machine."""

PINGS: Final = 10
"""How often a session gives a sign of life in the time after which it counts as lost."""

RETRY_SECONDS: Final = 0.1
"""Seconds between two attempts to get a lock again whose connection was lost.

They are shorter than the pauses of a standby, so that a restart of the database does not end the active server.
"""

CLASS: Final = int.from_bytes(b"apas")
"""The first half of the key. The second half is the schema: each may have the tables of a store."""

_SETTINGS: Final = text(
    "SELECT set_config('application_name', :name, false), set_config('idle_session_timeout', :milliseconds, false), "
    "coalesce((SELECT oid::bigint FROM pg_namespace WHERE nspname = current_schema()), 0) AS schema"
)
_TRY: Final = text("SELECT pg_try_advisory_lock(CAST(:key AS bigint))")
_UNLOCK: Final = text("SELECT pg_advisory_unlock_all()")
_HOLDER: Final = text(
    "SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE locktype = 'advisory' AND granted "
    "AND datname = current_database() AND classid = :class AND objid = :schema AND objsubid = 1"
)


class FileLock:
    """A lock file, which names the process that has locked it.

    The lock ends with the process, even with one that is killed.

    Parameters:
        path: the file, which is created if it does not exist.

    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self, label: str) -> None:
        """Lock the file.

        Raises:
            StoreTakenError: if another process has locked it.
            JobsUnavailableError: if it cannot be locked.

        """
        try:
            lock = os.open(self._path, os.O_RDWR | os.O_CREAT, MODE)
        except OSError as error:
            raise self._failed(label, error) from error
        try:
            lock_now(lock)
            os.ftruncate(lock, 0)
            os.write(lock, f"{_this_process()}\n".encode())
        except OSError as error:
            holder = os.read(lock, 1000).decode(errors="replace").strip()
            os.close(lock)
            if error.errno in TAKEN:
                raise _taken(label, holder) from None
            raise self._failed(label, error) from error
        self._descriptor = lock
        close_in_forks(lock)

    def release(self) -> None:
        """Let another process use the file."""
        lock, self._descriptor = self._descriptor, None
        if lock is not None:
            unlock(lock)

    def _failed(self, label: str, error: OSError) -> JobsUnavailableError:
        message = f"{label} cannot be locked: {self._path}: {error.strerror}"
        return JobsUnavailableError(message, is_full=error.errno == errno.ENOSPC)


class SessionLock:
    """An advisory lock of a PostgreSQL database, held by a connection of its own.

    The lock ends with the connection. A thread gives signs of life. Without them, because the process is stopped or
    its machine is lost, the database ends the connection. If the connection is lost otherwise, the thread tries to get
    the lock again, with another connection.

    Parameters:
        engine: creates connections.
        timeout: seconds after which a connection without a sign of life ends.

    """

    def __init__(self, engine: Engine, timeout: float) -> None:
        self._engine = engine
        self._timeout = timeout
        self._schema = 0
        self._connection: Connection | None = None
        self._released = Event()
        self._thread: Thread | None = None

    def acquire(self, label: str) -> None:
        """Get the lock.

        Raises:
            StoreTakenError: if another process has it. The connection then stays open until `release`, for the next
                call.
            SQLAlchemyError: if the database cannot be used.

        """
        if not self._try():
            raise _taken(label, self._connected().scalar(_HOLDER, {"class": CLASS, "schema": self._schema}))
        self._released.clear()
        # A task would be late if a pass occupies the event loop.
        self._thread = Thread(target=self._keep, name="apass server lock", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Let another process have the lock."""
        self._released.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            # Without an answer of the database, the connection is left to the thread.
            thread.join(self._timeout)
        else:
            self._disconnect()

    def _keep(self) -> None:
        pause = self._timeout / PINGS
        while not self._released.wait(RETRY_SECONDS if self._connection is None else pause):
            # If another server has got the lock meanwhile, the next transaction of this one fails.
            with suppress(SQLAlchemyError):
                self._try()
        # The database would end the session, and with it the lock, only a moment after the connection.
        with suppress(SQLAlchemyError):
            if self._connection is not None:
                self._connection.execute(_UNLOCK)
        self._disconnect()

    def _try(self) -> bool:
        """Return whether this process has the lock. A further call is a sign of life."""
        try:
            return bool(self._connected().scalar(_TRY, {"key": CLASS << 32 | self._schema}))
        except SQLAlchemyError:
            self._disconnect()
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
            # The pool, which may be closed before, must not reset it.
            self._connection.detach()
            settings = {"name": f"apass, {_this_process()}", "milliseconds": str(round(self._timeout * 1000))}
            self._schema = self._connection.execute(_SETTINGS, settings).one().schema
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.close()


def _this_process() -> str:
    return f"process {os.getpid()} on {gethostname()}"


def _taken(label: str, holder: str | None) -> StoreTakenError:
    return StoreTakenError(
        f"{label} is in use by {(holder or 'another process').removeprefix('apass, ')}; stop that process, or wait for "
        "its end as a standby (--standby, or `standby=True`)"
    )
