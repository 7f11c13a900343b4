"""`Map`: an immutable mapping whose `items()` is a list, as in TVM."""

from abc import ABCMeta
from collections.abc import Collection, Iterator, KeysView, Mapping, ValuesView
from typing import Generic, TypeVar, cast, overload

from apass.relay.ir.base import Node

__all__ = ["Map"]

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Map(Node, Collection[K], Generic[K, V]):
    """An immutable mapping in insertion order: TVM's `Map`.

    It equals a dict with the same entries.

    >>> Map({"a": 1, "b": 2}).items()[0]
    ('a', 1)
    """

    # `Mapping` as a base class would not permit `items` to return a list. It is registered as one below.

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V]) -> None:
        self._entries: dict[K, V] = dict(entries)

    def __getitem__(self, key: K) -> V:
        """Return a value. Raise KeyError if the key does not exist."""
        return self._entries[key]

    def __contains__(self, key: object) -> bool:
        """Return whether a key exists."""
        return key in self._entries

    def __iter__(self) -> Iterator[K]:
        """Iterate over the keys."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __eq__(self, other: object) -> bool:
        """Compare the entries, regardless of order."""
        return self._entries == (dict(cast("Map[object, object]", other)) if isinstance(other, Map) else other)

    def __repr__(self) -> str:
        """Return the text of a dict."""
        return repr(self._entries)

    def keys(self) -> KeysView[K]:
        """Return the keys."""
        return self._entries.keys()

    def values(self) -> ValuesView[V]:
        """Return the values."""
        return self._entries.values()

    def items(self) -> list[tuple[K, V]]:
        """Return the pairs of keys and values."""
        return list(self._entries.items())

    @overload
    def get(self, key: K) -> V | None: ...

    @overload
    def get(self, key: K, default: D) -> V | D: ...

    def get(self, key: K, default: D | None = None) -> V | D | None:
        """Return a value, or `default` if the key does not exist."""
        return self._entries.get(key, default)


cast("ABCMeta", Mapping).register(Map)
