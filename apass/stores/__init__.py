"""Stores: where results are kept, in memory, in a file or in Redis; for `PassContext(store=...)`."""

from apass.core.store import Store
from apass.stores.memory import MemoryStore
from apass.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store"]
