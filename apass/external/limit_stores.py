"""Where the states of limits are kept: Redis, a database, or this process."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from threading import Lock
from time import time
from typing import Any, Final, Protocol

import anyio
from anyio.to_thread import run_sync

from apass.concurrency.limits import NO_LIMIT
from apass.concurrency.loop_resource import LoopResource
from apass.errors import MissingExtraError, StoreError
from apass.util.text import short_reason

__all__ = ["LimitStore", "LocalLimits", "limit_store"]

TIMEOUT: Final = 10.0
"""Seconds for a reply of a server, and for the lock of another process."""

_TABLE: Final = "CREATE TABLE IF NOT EXISTS apass_limits (name TEXT PRIMARY KEY, state TEXT NOT NULL)"
_KEY: Final = "apass:limits:"
"""The beginning of the keys of Redis."""
_READ: Final = "return {redis.call('GET', KEYS[1]) or '', unpack(redis.call('TIME'))}"
"""Returns a value of Redis, the seconds and the microseconds of its clock."""
_SWAP: Final = """\
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1"""
"""Replaces a value of Redis, unless it is another one than expected."""


@contextmanager
def _errors_of(
    what: str, errors: type[Exception] | tuple[type[Exception], ...], seconds: float | None, *, shield: bool = False
) -> Generator[None]:
    """Limit the time of calls of a library, and raise StoreError for its errors."""
    try:
        with anyio.fail_after(seconds, shield=shield):
            yield
    except TimeoutError:
        raise StoreError(f"{what} cannot be used: it did not reply within {seconds:g} s") from None
    except errors as error:
        raise StoreError(f"{what} cannot be used: {error}") from error


class LimitStore(ABC):
    """A place for the states of limits, which are texts."""

    @asynccontextmanager
    async def session(self) -> AsyncGenerator["LimitStore"]:
        """Connect for some calls of `read` and `swap`."""
        yield self

    @abstractmethod
    async def read(self, name: str) -> tuple[str, float]:
        """Return the state of a limit and the time of the store in seconds.

        The state is empty if there is none.

        Raises:
            StoreError: if the store cannot be used.

        """

    @abstractmethod
    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state if it is still `old`; return whether it was.

        Raises:
            StoreError: if the store cannot be used.

        """


class LocalLimits(LimitStore):
    """The states of the limits of one event loop."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}

    async def read(self, name: str) -> tuple[str, float]:
        """Return a state, and the time."""
        return self._states.get(name, ""), time()

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        is_same = self._states.get(name, "") == old
        if is_same:
            self._states[name] = new
        return is_same


_Rows = Sequence[tuple[Any, ...]]


class _Connection(Protocol):
    """A connection to a database, which several threads may use."""

    # It is a Protocol because the libraries have no base class in common.

    def rows(self, statement: str, values: Sequence[str]) -> _Rows:
        """Return the rows of a statement, which is a transaction of its own."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class _DatabaseLimits(LimitStore):
    """States in a table of a database.

    Parameters:
        what: the database, for messages.
        connect: returns a connection.
        errors: the errors of its library.
        clock: the SQL expression for the seconds since 1970.
        mark: the placeholder for a value in statements.
        may_hang: whether the library waits without a limit.

    """

    def __init__(
        self,
        what: str,
        connect: Callable[[], _Connection],
        errors: type[Exception],
        clock: str,
        mark: str,
        *,
        may_hang: bool,
    ) -> None:
        self._what = what
        self._may_hang = may_hang
        self._errors = errors
        self._connection = LoopResource(connect, lambda connection: connection.close())
        self._find = f"SELECT (SELECT state FROM apass_limits WHERE name = {mark}), {clock}"
        self._add = f"INSERT INTO apass_limits (state, name) VALUES ({mark}, {mark}) ON CONFLICT DO NOTHING RETURNING 1"
        self._change = f"UPDATE apass_limits SET state = {mark} WHERE name = {mark} AND state = {mark} RETURNING 1"

    async def read(self, name: str) -> tuple[str, float]:
        """Return a state, and the time of the database."""
        ((state, now),) = await self._rows(self._find, [name], is_change=False)
        return state or "", now

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        statement, values = (self._change, [new, name, old]) if old else (self._add, [new, name])
        return bool(await self._rows(statement, values, is_change=True))

    async def _rows(self, statement: str, values: Sequence[str], *, is_change: bool) -> _Rows:
        connection: _Connection | None = None
        try:
            # A thread that is abandoned might make its change after later ones. While a thread reads, a server that
            # hangs must not hold up a deadline.
            seconds = TIMEOUT if self._may_hang else None
            with _errors_of(self._what, self._errors, seconds, shield=is_change):
                connection = await self._connection.get()
                return await run_sync(
                    connection.rows, statement, values, abandon_on_cancel=True, limiter=NO_LIMIT.here()
                )
        except StoreError:
            # The next call connects again. That ends a thread that waits for the server, too.
            if connection is not None:
                await self._connection.close(connection)
            raise


class _SqliteConnection:
    """A connection to a SQLite file, for the processes of one machine.

    Parameters:
        path: the file.

    """

    def __init__(self, path: Path) -> None:
        # Threads that use a connection at once would share a transaction.
        self._lock = Lock()
        self._connection = sqlite3.connect(path, timeout=TIMEOUT, isolation_level=None, check_same_thread=False)
        try:
            # A change takes a tenth of a millisecond if it does not wait for the disk. If the machine is lost, the last
            # changes are lost with it, which is harmless.
            for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", _TABLE):
                self._connection.execute(statement)
        except BaseException:
            self._connection.close()
            raise

    def rows(self, statement: str, values: Sequence[str]) -> _Rows:
        """Return the rows of a statement."""
        with self._lock:
            return self._connection.execute(statement, values).fetchall()

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()


class _PostgresConnection:
    """A connection to a PostgreSQL database.

    Parameters:
        library: psycopg.
        url: the address of the database.

    """

    def __init__(self, library: Any, url: str) -> None:
        self._connection = library.connect(url, autocommit=True, connect_timeout=int(TIMEOUT))
        # Another process may create the table at the same moment.
        with suppress(library.errors.UniqueViolation):
            self._connection.execute(_TABLE)

    def rows(self, statement: str, values: Sequence[str]) -> _Rows:
        """Return the rows of a statement."""
        rows: _Rows = self._connection.execute(statement, values).fetchall()
        return rows

    def close(self) -> None:
        """Close the connection, which ends a statement that waits for the server."""
        self._connection.close()


class _RedisLimits(LimitStore):
    """States in a Redis server."""

    def __init__(self, url: str) -> None:
        try:
            # It is an extra.
            from coredis import Redis
            from coredis.exceptions import RedisError
        except ImportError as error:
            message = f"limits in Redis need coredis ({error}): pip install 'apass[redis]'"
            raise MissingExtraError(message) from error
        self._client: Any = partial(Redis.from_url, url, decode_responses=True)
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError)

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[LimitStore]:
        """Connect to the server."""
        raised: Exception | None = None
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(self._client())
            except Exception as error:  # the task group of the client wraps its errors
                raise StoreError(f"the Redis server of limits cannot be used: {short_reason(error)}") from error
            try:
                yield _RedisSession(client, self._errors)
            except Exception as error:  # the task group would wrap it
                raised = error
        if raised is not None:
            raise raised

    async def read(self, name: str) -> tuple[str, float]:
        """Return a state, and the time of the server."""
        async with self.session() as session:
            return await session.read(name)

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        async with self.session() as session:
            return await session.swap(name, old, new)


class _RedisSession(LimitStore):
    """A connection to a Redis server."""

    def __init__(self, client: Any, errors: tuple[type[Exception], ...]) -> None:
        self._client = client
        self._errors = errors

    async def read(self, name: str) -> tuple[str, float]:
        """Return a state, and the time of the server."""
        state, seconds, micros = await self._run(lambda: self._client.eval(_READ, keys=[_KEY + name]))
        return str(state), int(seconds) + int(micros) / 1e6

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        return bool(await self._run(lambda: self._client.eval(_SWAP, keys=[_KEY + name], args=[old, new])))

    async def _run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        with _errors_of("the Redis server of limits", self._errors, TIMEOUT):
            return await call()


@cache
def limit_store(where: str) -> LimitStore:
    """Return the store that a URL of Redis or PostgreSQL, or the path of a file names.

    Raises:
        MissingExtraError: if its library is not installed.

    """
    if where.startswith(("redis://", "rediss://")):
        return _RedisLimits(where)
    if where.startswith(("postgresql://", "postgres://")):
        try:
            # It is an extra.
            import psycopg
        except ImportError as error:
            message = f"limits in PostgreSQL need psycopg ({error}): pip install 'apass[postgres]'"
            raise MissingExtraError(message) from error
        clock = "extract(epoch FROM clock_timestamp())::float8"
        connect = partial(_PostgresConnection, psycopg, where)
        return _DatabaseLimits("the database of limits", connect, psycopg.Error, clock, "%s", may_hang=True)
    clock = "(julianday('now') - 2440587.5) * 86400.0"
    connect_file = partial(_SqliteConnection, Path(where))
    what = f"the file of limits {where!r}"
    return _DatabaseLimits(what, connect_file, sqlite3.Error, clock, "?", may_hang=False)
