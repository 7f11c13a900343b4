"""`IdentityCache`: what is known about immutable objects, by their identity."""

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar

__all__ = ["IdentityCache"]

V = TypeVar("V")

_HELD: Final = 1024
"""Maximum number of objects without weak references that a cache keeps alive by default."""


class IdentityCache(Generic[V]):
    """A value for each of some objects, which need not be hashable.

    An entry lasts as long as its object. Objects that do not support weak references are kept alive, the latest `held`
    of them.
    """

    def __init__(self, held: int = _HELD) -> None:
        self._max_held = held
        self._weak: dict[int, tuple[weakref.ref[Any], V]] = {}
        self._held: OrderedDict[int, tuple[object, V]] = OrderedDict()

    def get(self, subject: object) -> V | None:
        """Return the value of this object, or None."""
        key = id(subject)
        weak = self._weak.get(key)
        if weak is not None:
            return weak[1]
        held = self._held.get(key)
        return None if held is None else held[1]

    def keep(self, subject: object, value: V) -> None:
        """Set the value of an object."""
        key = id(subject)
        try:
            self._weak[key] = (weakref.ref(subject, lambda _: self._weak.pop(key, None)), value)
        except TypeError:
            # A strong reference keeps the id from being reused by another object.
            self._held[key] = (subject, value)
            if len(self._held) > self._max_held:
                self._held.popitem(last=False)

    def forget(self, subjects: Iterable[object]) -> None:
        """Drop the values of objects that have changed."""
        if self._weak or self._held:
            for key in map(id, subjects):
                self._weak.pop(key, None)
                self._held.pop(key, None)
