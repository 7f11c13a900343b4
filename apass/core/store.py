"""`Store`: the protocol of persistent result caches, which hold bytes by key."""

import warnings
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, runtime_checkable

from apass.errors import StoreError, StoreWarning

__all__ = ["FaultTolerantStore", "Store", "StoreInfo"]

PAUSE_SECONDS: Final = 30.0
"""Seconds to wait before retrying a store that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """The location and size of a store."""

    place: str
    """A human-readable location."""
    entries: int
    """The number of results."""
    size: int
    """The total size of the results in bytes."""


@runtime_checkable
class Store(Protocol):
    """Holds bytes by key; see `apass.stores` for implementations.

    A store may lose entries, but must not change them. One object may serve many tasks at once. If the store is
    unavailable, its methods raise StoreError. It is a Protocol, so that a store needs no base class of apass.
    """

    async def get(self, key: str) -> bytes | None:
        """Return the latest value put under `key`, or None."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`."""
        ...

    async def info(self) -> StoreInfo:
        """Return the location and size of the store."""
        ...

    async def clear(self) -> None:
        """Remove all entries."""
        ...


class FaultTolerantStore:
    """A wrapper that treats a failing store as an empty one.

    If the store fails, a StoreWarning is emitted, and the store is not used for the next 30 seconds.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._retry_at = 0.0

    async def get(self, key: str) -> bytes | None:
        """Return the latest value put under `key`, or None, also if the store fails."""
        if monotonic() < self._retry_at:
            return None
        try:
            return await self._store.get(key)
        except StoreError as error:
            self._give_up(error)
            return None

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`, unless the store fails."""
        if monotonic() < self._retry_at:
            return
        try:
            await self._store.put(key, value)
        except StoreError as error:
            self._give_up(error)

    def _give_up(self, error: StoreError) -> None:
        now = monotonic()
        if now < self._retry_at:
            return  # a concurrent call has failed too, and has emitted the warning
        self._retry_at = now + PAUSE_SECONDS
        warnings.warn(f"{error}; continuing without the store", StoreWarning, stacklevel=2)
