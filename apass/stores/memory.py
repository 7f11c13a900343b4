"""`MemoryStore`: results in this process, up to a size; what was not asked for longest goes first."""

from collections import OrderedDict
from threading import Lock

from apass.core.store import StoreInfo

__all__ = ["MemoryStore"]


class MemoryStore:
    """Keeps results in memory; a `Store`. Any number of contexts, tasks and threads may share one.

    Parameters:
        limit: how many bytes are kept; those not asked for longest go first.

    Raises:
        ValueError: if `limit` is less than 1.

    >>> import anyio
    >>> async def main():
    ...     store = MemoryStore(limit=8)
    ...     await store.put("a", b"12345")
    ...     await store.put("b", b"67890")
    ...     return await store.get("a"), await store.get("b")
    >>> anyio.run(main)
    (None, b'67890')

    """

    def __init__(self, limit: int = 2**28) -> None:
        if limit < 1:
            raise ValueError(f"limit must be a number of bytes of at least 1, not {limit!r}")
        self._limit = limit
        self._size = 0
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    async def get(self, key: str) -> bytes | None:
        """Return what was put under `key` last, None if there is nothing."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    async def put(self, key: str, value: bytes) -> None:
        """Keep `value` under `key`, if it is not larger than all that may be kept."""
        with self._lock:
            self._drop(key)
            if len(value) > self._limit:
                return
            self._entries[key] = value
            self._size += len(value)
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    async def info(self) -> StoreInfo:
        """Say what there is."""
        with self._lock:
            return StoreInfo(place="memory", entries=len(self._entries), size=self._size)

    async def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _drop(self, key: str) -> None:
        self._size -= len(self._entries.pop(key, b""))
