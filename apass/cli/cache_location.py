"""Where the command line keeps results: the place that `--cache` and `apass cache` name."""

import os
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol, cast

from apass.cli.inputs import InputError
from apass.core.store import Store
from apass.stores import SqliteStore

__all__ = ["DEFAULT", "CacheStore", "RedisLike", "default_place", "store_at"]

DEFAULT: Final = "default"
"""Stands for the user's own file."""


class RedisLike(Store, AbstractAsyncContextManager[Any], Protocol):
    """A store that must be entered."""


CacheStore = SqliteStore | RedisLike
"""What a place of the command line may be; it must be entered to be used."""

_MAGIC: Final = b"SQLite format 3\0"
_REDIS: Final = ("redis://", "rediss://")


def default_place() -> Path:
    """Return the user's own file: `$APASS_CACHE`, else `apass/results.db` where the system keeps caches."""
    given = os.environ.get("APASS_CACHE")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "apass" / "results.db"


def store_at(place: str) -> CacheStore:
    """Return the store at a place: a file, `default`, or a Redis server's URL. It must be entered to be used.

    Raises:
        MissingExtraError: if it is a Redis server, and its client is not installed.
        InputError: if the place is a folder, or a file of another kind.

    """
    if place.startswith(_REDIS):
        return cast("RedisLike", import_module("apass.stores.redis").RedisStore(place))
    path = default_place() if place == DEFAULT else Path(place)
    if path.is_dir():
        raise InputError(f"the cache {str(path)!r} is a folder; name a file, as {str(path / 'results.db')!r}")
    if place != DEFAULT and _is_of_another_kind(path):
        raise InputError(f"{place!r} is no cache, and is left as it is; name another file, or delete this one")
    return SqliteStore(path)


def _is_of_another_kind(path: Path) -> bool:
    """Tell whether there is a file that does not begin as a cache does: a store would set it aside as damaged."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except OSError:
        return False
    return start != _MAGIC[: len(start)]
