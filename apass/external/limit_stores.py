"""Where the states of limits are kept: Redis, a database, or this process."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from functools import cache, partial
from pathlib import Path
from time import time
from typing import Any, Final, TypeVar

import anyio
from anyio.to_thread import run_sync

from apass.concurrency.limits import NO_LIMIT
from apass.concurrency.loop_resource import LoopResource
from apass.errors import MissingExtraError, StoreError
from apass.util.text import short_reason

__all__ = ["LimitStore", "LocalLimits", "limit_store"]

R = TypeVar("R")

TIMEOUT: Final = 10.0
"""Seconds for a reply of a server, and for the lock of another process."""

_TABLE: Final = "CREATE TABLE IF NOT EXISTS apass_limits (name TEXT PRIMARY KEY, state TEXT NOT NULL)"
_FIND: Final = "SELECT state FROM apass_limits WHERE name = {0}"
_ADD: Final = "INSERT INTO apass_limits (state, name) VALUES ({0}, {0}) ON CONFLICT DO NOTHING"
_CHANGE: Final = "UPDATE apass_limits SET state = {0} WHERE name = {0} AND state = {0}"
_KEY: Final = "apass:limits:"
"""The beginning of the keys of Redis."""
_READ: Final = "return {redis.call('GET', KEYS[1]) or '', unpack(redis.call('TIME'))}"
"""Returns a value of Redis, the seconds and the microseconds of its clock."""
_SWAP: Final = """\
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1"""
"""Replaces a value of Redis, unless it is another one than expected."""


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


class _FileLimits(LimitStore):
    """States in a SQLite file, for the processes of one machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def read(self, name: str) -> tuple[str, float]:
        """Return a state, and the time of this machine."""
        rows = await self._run(lambda connection: connection.execute(_FIND.format("?"), [name]).fetchall())
        return str(rows[0][0]) if rows else "", time()

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        statement, values = (_CHANGE, [new, name, old]) if old else (_ADD, [new, name])
        return await self._run(lambda connection: connection.execute(statement.format("?"), values).rowcount) == 1

    async def _run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        return await run_sync(self._connect_and, work, limiter=NO_LIMIT.here())

    def _connect_and(self, work: Callable[[sqlite3.Connection], R]) -> R:
        try:
            # Opening takes a fraction of the time that the answer of a service takes.
            with closing(sqlite3.connect(self._path, timeout=TIMEOUT)) as connection, connection:
                connection.execute(_TABLE)
                return work(connection)
        except sqlite3.Error as error:
            raise StoreError(f"the file of limits {str(self._path)!r} cannot be used: {error}") from error


class _PostgresLimits(LimitStore):
    """States in a PostgreSQL database."""

    def __init__(self, url: str) -> None:
        try:
            # It is an extra.
            import psycopg
        except ImportError as error:
            message = f"limits in PostgreSQL need psycopg ({error}): pip install 'apass[postgres]'"
            raise MissingExtraError(message) from error
        self._psycopg: Any = psycopg
        self._connection = LoopResource[Any](partial(self._connect, url), lambda connection: connection.close())

    async def read(self, name: str) -> tuple[str, float]:
        """Return a state, and the time of the server."""
        query = f"SELECT ({_FIND.format('%s')}), extract(epoch FROM clock_timestamp())::float8"
        state, now = await self._run(lambda connection: connection.execute(query, [name]).fetchone())
        return state or "", now

    async def swap(self, name: str, old: str, new: str) -> bool:
        """Replace a state."""
        statement, values = (_CHANGE, [new, name, old]) if old else (_ADD, [new, name])
        count = await self._run(lambda connection: connection.execute(statement.format("%s"), values).rowcount)
        return bool(count == 1)

    async def _run(self, work: Callable[[Any], R]) -> R:
        try:
            connection = await self._connection.get()
            return await run_sync(work, connection, limiter=NO_LIMIT.here())
        except self._psycopg.Error as error:
            # The next call connects again.
            await self._connection.close()
            raise StoreError(f"the database of limits cannot be used: {error}") from error

    def _connect(self, url: str) -> Any:
        connection = self._psycopg.connect(url, autocommit=True, connect_timeout=int(TIMEOUT))
        # Another process may create the table at the same moment.
        with suppress(self._psycopg.errors.UniqueViolation):
            connection.execute(_TABLE)
        return connection


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
        try:
            with anyio.fail_after(TIMEOUT):
                return await call()
        except self._errors as error:
            raise StoreError(f"the Redis server of limits cannot be used: {error}") from error


@cache
def limit_store(where: str) -> LimitStore:
    """Return the store that a URL of Redis or PostgreSQL, or the path of a file names.

    Raises:
        MissingExtraError: if its library is not installed.

    """
    if where.startswith(("redis://", "rediss://")):
        return _RedisLimits(where)
    if where.startswith(("postgresql://", "postgres://")):
        return _PostgresLimits(where)
    return _FileLimits(Path(where))
