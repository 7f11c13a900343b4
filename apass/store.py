"""`Store`: where results are kept beyond a run, as bytes by key; the protocol that caches speak to."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = ["Store", "StoreInfo"]


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

    A store may lose what it was given, never change it. One object may serve many tasks at once.
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
