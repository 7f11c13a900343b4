"""`MemoryStore`: results in memory, with least-recently-used eviction."""

from collections import OrderedDict
from threading import Lock

from apass.core.store import StoreInfo

__all__ = ["MemoryStore"]


class MemoryStore:
    """A `Store` in memory, which contexts, tasks and threads may share.

    Parameters:
        limit: maximum size of all results in bytes. The least recently used results are removed first.

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
            raise ValueError(f"limit must be a positive number of bytes, got {limit!r}")
        self._limit = limit
        self._size = 0
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    async def get(self, key: str) -> bytes | None:
        """Return the value stored under `key`, or None."""
        with self._lock:
            value = self._entries.get(key)
            if value is not None:
                self._entries.move_to_end(key)
            return value

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`, unless it is larger than the limit."""
        with self._lock:
            self._drop(key)
            if len(value) > self._limit:
                return
            self._entries[key] = value
            self._size += len(value)
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    async def info(self) -> StoreInfo:
        """Return the number and size of the results."""
        with self._lock:
            return StoreInfo(place="memory", entries=len(self._entries), size=self._size)

    async def clear(self) -> None:
        """Delete all results."""
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _drop(self, key: str) -> None:
        self._size -= len(self._entries.pop(key, b""))
