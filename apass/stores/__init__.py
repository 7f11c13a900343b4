"""Stores for `PassContext(store=...)`: in memory, in a file, or in Redis."""

from typing import TYPE_CHECKING

from apass.util.lazy_names import lazy_names

if TYPE_CHECKING:
    from apass.core.store import Store
    from apass.stores.memory import MemoryStore
    from apass.stores.sqlite import SqliteStore
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "apass.core.store": ["Store"],
            "apass.stores.memory": ["MemoryStore"],
            "apass.stores.sqlite": ["SqliteStore"],
        },
    )

__all__ = ["MemoryStore", "SqliteStore", "Store"]
