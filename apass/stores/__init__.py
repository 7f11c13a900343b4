"""Stores for `PassContext(store=...)`: in memory, in a file, or in Redis."""

from apass.core.store import Store
from apass.stores.memory import MemoryStore
from apass.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store"]
