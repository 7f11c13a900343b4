"""`Store`: where results are kept beyond a run, as bytes by key; the protocol that caches speak to."""

import warnings
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, runtime_checkable

from apass.errors import StoreError, StoreWarning

__all__ = ["ForgivingStore", "Store", "StoreInfo"]

PAUSE_SECONDS: Final = 30.0
"""For so long a store that failed is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """What a store holds."""

    place: str
    """Where it is, for people."""
    entries: int
    """How many results."""
    size: int
    """How many bytes they have."""


@runtime_checkable
class Store(Protocol):
    """What keeps bytes by key. A Protocol, because a store is its library's business; see `apass.stores`.

    A store may lose what it was given, never change it. One object may serve many tasks at once. One that cannot be
    used at the moment raises StoreError.
    """

    async def get(self, key: str) -> bytes | None:
        """Return what was put under `key` last, None if there is nothing."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`."""
        ...

    async def info(self) -> StoreInfo:
        """Say what there is."""
        ...

    async def clear(self) -> None:
        """Forget everything."""
        ...


class ForgivingStore:
    """A store as a context uses it: what it cannot keep is worked out again, and no work is lost for its sake.

    When it fails, a StoreWarning says so, and it is left alone for half a minute before it is tried again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tried_again_at = 0.0

    async def get(self, key: str) -> bytes | None:
        """Return what was put under `key` last, None if there is nothing, or nobody can tell."""
        if monotonic() < self._tried_again_at:
            return None
        try:
            return await self._store.get(key)
        except StoreError as error:
            self._give_up(error)
            return None

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key` if that can be done."""
        if monotonic() < self._tried_again_at:
            return
        try:
            await self._store.put(key, value)
        except StoreError as error:
            self._give_up(error)

    def _give_up(self, error: StoreError) -> None:
        now = monotonic()
        if now < self._tried_again_at:
            return  # many ask at once, and one of them has said it
        self._tried_again_at = now + PAUSE_SECONDS
        warnings.warn(f"{error}; the work goes on without it", StoreWarning, stacklevel=2)
