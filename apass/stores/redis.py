"""`RedisStore`: results shared by many machines, in a Redis server; needs `apass[redis]`."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self, cast

import anyio

from apass.core.store import StoreInfo
from apass.errors import MissingExtraError, StoreError

try:
    from coredis import Redis
    from coredis.exceptions import RedisError
except ImportError as error:
    raise MissingExtraError(f"RedisStore needs coredis ({error}): pip install apass[redis]") from error

__all__ = ["RedisStore"]

_ERRORS: Final = (RedisError, OSError)
"""What the client raises where the server cannot be asked."""


class RedisStore:
    """Keeps results in a Redis server; a `Store` for as long as it is entered, on asyncio and on trio.

    Parameters:
        url: the server, such as `redis://localhost:6379/0`.
        prefix: begins the name of every key, so that others may use the same server.
        timeout: seconds that the server has for an answer.
        expire: seconds after which a result that was put is forgotten; None leaves it to the server.

    Raises:
        StoreError: when it is entered or used, if the server cannot be asked.

    """

    def __init__(self, url: str, *, prefix: str = "apass:", timeout: float = 10.0, expire: int | None = None) -> None:
        self.url: Final = url
        """The server."""
        self.prefix: Final = prefix
        """Begins the name of every key."""
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
        except (*_ERRORS, ExceptionGroup) as error:
            raise self._error(error) from error
        self._client = client
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client = None
        await self._stack.aclose()

    async def get(self, key: str) -> bytes | None:
        """Return what was put under `key` last, None if there is nothing."""
        try:
            with anyio.fail_after(self._timeout):
                return await self._open().get(self.prefix + key)
        except _ERRORS as error:
            raise self._error(error) from error

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`."""
        try:
            with anyio.fail_after(self._timeout):
                await self._open().set(self.prefix + key, value, ex=self._expire)
        except _ERRORS as error:
            raise self._error(error) from error

    async def info(self) -> StoreInfo:
        """Say what there is under the prefix."""
        client, entries, size = self._open(), 0, 0
        try:
            async for key in client.scan_iter(match=f"{self.prefix}*", count=1000):
                entries += 1
                size += await client.strlen(key)
        except _ERRORS as error:
            raise self._error(error) from error
        return StoreInfo(place=self.url, entries=entries, size=size)

    async def clear(self) -> None:
        """Forget everything under the prefix."""
        client = self._open()
        try:
            keys = [key async for key in client.scan_iter(match=f"{self.prefix}*", count=1000)]
            for start in range(0, len(keys), 1000):
                await client.delete(keys[start : start + 1000])
        except _ERRORS as error:
            raise self._error(error) from error

    def _open(self) -> "Redis[bytes]":
        if self._client is None:
            raise StoreError("a RedisStore is used within `async with RedisStore(...) as store`")
        return self._client

    def _error(self, error: Exception) -> StoreError:
        first: BaseException = error
        while isinstance(first, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", first)
            first = group.exceptions[0]
        if isinstance(first, TimeoutError) and not str(first):
            first = TimeoutError(f"no answer within {self._timeout:g} s")
        return StoreError(f"the Redis server {self.url!r} cannot be asked: {type(first).__name__}: {first}")
