"""`RedisStore`: results in a Redis server, shared by machines; for `apass[redis]`."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Final, Self, cast

import anyio

from apass.core.store import SEAL_SIZE, SharedStore, StoreInfo, seal, unseal
from apass.errors import MissingExtraError, StoreError

try:
    from coredis import Redis
    from coredis.exceptions import RedisError, WrongTypeError
except ImportError as _error:
    raise MissingExtraError(f"RedisStore needs coredis ({_error}): pip install 'apass[redis]'") from _error

__all__ = ["RedisStore"]

_ERRORS: Final = (RedisError, OSError)
"""Errors of the client if the server is unreachable or fails."""


class RedisStore:
    """A `Store` in a Redis server, for use within `async with` on asyncio or trio.

    A value that another client has changed counts as missing, with a StoreWarning.

    Parameters:
        url: the server, such as `redis://localhost:6379/0`.
        prefix: prefix of all keys, so that the server may have other users.
        timeout: time limit in seconds for a reply of the server.
        expire: seconds after which the server deletes a result. None leaves this to the server.

    Raises:
        StoreError: on entry or use, if the server is unreachable or fails.

    """

    seals: Final = True
    """Values are sealed here, because any client of the server can change them."""

    def __init__(self, url: str, *, prefix: str = "apass:", timeout: float = 10.0, expire: int | None = None) -> None:
        self.url: Final = url
        """The URL of the server."""
        self._shown_url = _without_password(url)
        self.prefix: Final = prefix
        """Prefix of all keys."""
        self._timeout = timeout
        self._expire = expire
        self._stack = AsyncExitStack()
        self._client: Redis[bytes] | None = None

    async def __aenter__(self) -> Self:
        try:
            async with AsyncExitStack() as stack:
                client: Redis[bytes] = await stack.enter_async_context(Redis.from_url(self.url, decode_responses=False))
                with anyio.fail_after(self._timeout):
                    await client.ping()
                self._stack = stack.pop_all()
        except (*_ERRORS, ExceptionGroup, ValueError) as error:  # a ValueError is about the URL
            raise self._error(error) from error
        self._client = client
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client = None
        await self._stack.aclose()

    async def get(self, key: str) -> bytes | None:
        """Return the value stored under `key`, or None."""
        try:
            with anyio.fail_after(self._timeout):
                data: object = await self._open().get(self.prefix + key)
        except WrongTypeError as error:
            data = error  # another client put a list or a hash under the key
        except _ERRORS as error:
            raise self._error(error) from error
        return None if data is None else unseal(key, data, f"the Redis server {self._shown_url!r}")

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`."""
        try:
            with anyio.fail_after(self._timeout):
                await self._open().set(self.prefix + key, seal(key, value), ex=self._expire)
        except _ERRORS as error:
            raise self._error(error) from error

    async def info(self) -> StoreInfo:
        """Return the number and size of the results under the prefix."""
        client, entries, size = self._open(), 0, 0
        try:
            async for key in client.scan_iter(match=f"{self.prefix}*", count=1000):
                entries += 1
                size += max(0, await client.strlen(key) - SEAL_SIZE)
        except _ERRORS as error:
            raise self._error(error) from error
        return StoreInfo(place=self._shown_url, entries=entries, size=size)

    async def clear(self) -> None:
        """Delete all results under the prefix."""
        client = self._open()
        try:
            keys = [key async for key in client.scan_iter(match=f"{self.prefix}*", count=1000)]
            for start in range(0, len(keys), 1000):
                await client.delete(keys[start : start + 1000])
        except _ERRORS as error:
            raise self._error(error) from error

    def for_worker(self) -> Callable[[], SharedStore]:
        """Return a function that connects a worker to the server."""
        return partial(RedisStore, self.url, prefix=self.prefix, timeout=self._timeout, expire=self._expire)

    def _open(self) -> "Redis[bytes]":
        if self._client is None:
            raise StoreError("RedisStore is not open; use it within `async with RedisStore(...) as store:`")
        return self._client

    def _error(self, error: Exception) -> StoreError:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", cause)
            cause = group.exceptions[0]
        if isinstance(cause, TimeoutError) and not str(cause):
            cause = TimeoutError(f"no reply within {self._timeout:g} s")
        return StoreError(f"the Redis server {self._shown_url!r} failed: {type(cause).__name__}: {cause}")


def _without_password(url: str) -> str:
    """Return the URL for messages.

    >>> _without_password("redis://user:secret@localhost:6379/0")
    'redis://user:***@localhost:6379/0'
    """
    start, at, rest = url.rpartition("@")
    scheme, _, login = start.partition("://")
    user, colon, _ = login.partition(":")
    return f"{scheme}://{user}{colon}***@{rest}" if at and colon else url
