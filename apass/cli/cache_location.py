"""Result stores of the command line: from the value of `--cache` to a store."""

import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from apass.core.store import SharedStore, StoreInfo
from apass.errors import InputError, StoreError, StoreWarning
from apass.stores import SqliteStore

__all__ = ["DEFAULT", "OptionalStore", "default_path", "store_at"]

DEFAULT: Final = "default"
"""The value of `--cache` that selects the file `default_path()`."""


class OptionalStore:
    """The store of a run, which stays empty if it cannot be opened.

    A cache is no reason to fail: a full disk or an unreachable server costs a StoreWarning.
    """

    seals: Final = True
    """The stores of the command line seal their values."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self._is_open = False

    async def __aenter__(self) -> Self:
        try:
            await self._store.__aenter__()
            self._is_open = True
        except StoreError as error:
            warnings.warn(f"{error}; continuing without the store", StoreWarning, stacklevel=2)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_open:
            self._is_open = False
            await self._store.__aexit__(exc_type, exc, traceback)

    async def get(self, key: str) -> bytes | None:
        """Return the value stored under `key`, or None."""
        return await self._store.get(key) if self._is_open else None

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`, if the store is open."""
        if self._is_open:
            await self._store.put(key, value)

    def for_worker(self) -> Callable[[], SharedStore]:
        """Return a function that creates the store in a worker."""
        return partial(_optional, self._store.for_worker())

    async def info(self) -> StoreInfo:
        """Return the number and size of the results."""
        return await self._store.info()

    async def clear(self) -> None:
        """Delete all results."""
        await self._store.clear()


def _optional(create: Callable[[], SharedStore]) -> OptionalStore:
    return OptionalStore(create())


_MAGIC: Final = b"SQLite format 3\0"
_REDIS: Final = ("redis://", "rediss://")


def default_path() -> Path:
    """Return the path of the user's cache file.

    It is `$APASS_CACHE`, or `apass/results.db` in the system's cache directory.
    """
    path = os.environ.get("APASS_CACHE")
    if path:
        return Path(path)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "apass" / "results.db"


def store_at(location: str) -> SharedStore:
    """Return the store at a location: a file, `default`, or the URL of a Redis server.

    Raises:
        MissingExtraError: if the location is a Redis server and the Redis client is not installed.
        InputError: if the location is a folder, or a file that is not a cache.

    """
    if location.startswith(_REDIS):
        # Most caches are files, and the client of Redis is an extra.
        from apass.stores.redis import RedisStore

        return RedisStore(location)
    path = default_path() if location == DEFAULT else Path(location)
    if path.is_dir():
        raise InputError(f"the cache {str(path)!r} is a folder; name a file, such as {str(path / 'results.db')!r}")
    if location != DEFAULT and _is_other_file(path):
        raise InputError(
            f"{location!r} is not a cache file and was left unchanged; name another file, or delete this one"
        )
    return SqliteStore(path)


def _is_other_file(path: Path) -> bool:
    """Return whether `path` is a file that is not an SQLite database."""
    # Without this check, SqliteStore would treat the user's file as a damaged cache and move it aside.
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError:
        return False
    # An empty or truncated database is still a cache: compare only the bytes that were read.
    return start != _MAGIC[: len(start)]
