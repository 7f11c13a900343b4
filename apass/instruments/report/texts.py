"""`TextStore`: texts of modules, each kept once and compressed; for a report."""

import zlib
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Final

__all__ = ["LARGE", "Base", "KeptText", "TextStore"]

LARGE: Final = 2**16
"""The bytes of text from which it is better compressed in a thread."""

_WINDOW: Final = 2**15
"""How far deflate looks back, so how much of another text can serve as its dictionary."""
_MOST_LINKS: Final = 24
"""How many texts must be read at most before one can be: each is compressed against the one before."""


@dataclass(frozen=True, slots=True)
class KeptText:
    """One text, compressed by raw deflate."""

    data: bytes
    """The compressed UTF-8."""
    base: int
    """The text whose last 32 KB are the dictionary; -1 for none."""
    links: int
    """How many texts are to be read before this one."""


@dataclass(frozen=True, slots=True)
class Base:
    """A text that others are compressed against: it changes little from pass to pass."""

    index: int
    """Its place in the store."""
    tail: bytes
    """Its last bytes."""


class TextStore:
    r"""Texts by number; equal texts are one. Any thread may add one.

    Parameters:
        limit: the compressed bytes that are kept; texts that come later are refused.

    >>> store = TextStore()
    >>> first = store.add("add(x, y)\n" * 50, None)
    >>> second = store.add("add(x, y)\n" * 50 + "one more", first)
    >>> [store.add("add(x, y)\n" * 50, second).index, first.index, second.index, store.text(1)[-8:]]
    [0, 0, 1, 'one more']

    """

    def __init__(self, limit: int = 2**28) -> None:
        self._limit = limit
        self._lock = Lock()
        self._indices: dict[bytes, int] = {}
        self._texts: list[KeptText] = []
        self._bytes = 0
        self._refused = 0

    @property
    def texts(self) -> tuple[KeptText, ...]:
        """All that is kept, by number."""
        with self._lock:
            return tuple(self._texts)

    @property
    def refused(self) -> int:
        """How many texts came after `limit` was reached."""
        return self._refused

    def add(self, text: str, base: Base | None) -> Base:
        """Keep a text that resembles the one that `base` was returned for; return it as the base for the next.

        Its index is -1 if there is no more room.
        """
        data = text.encode(errors="backslashreplace")
        digest = blake2b(data, digest_size=16).digest()
        tail = data[-_WINDOW:]
        with self._lock:
            known = self._indices.get(digest)
            if known is None and self._bytes >= self._limit:
                self._refused += 1
                return Base(-1, b"")
        if known is None:
            known = self._keep(digest, data, base)
        return Base(known, tail)

    def text(self, index: int) -> str:
        """Return the text of a number."""
        return self._bytes_of(index).decode()

    def _keep(self, digest: bytes, data: bytes, base: Base | None) -> int:
        links = 0 if base is None or base.index < 0 else self._texts[base.index].links + 1
        if base is None or base.index < 0 or links > _MOST_LINKS:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            place, links = -1, 0
        else:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=base.tail)
            place = base.index
        kept = KeptText(packer.compress(data) + packer.flush(), place, links)
        with self._lock:
            index = self._indices.setdefault(digest, len(self._texts))  # another thread may have been faster
            if index == len(self._texts):
                self._texts.append(kept)
                self._bytes += len(kept.data)
        return index

    def _bytes_of(self, index: int) -> bytes:
        kept = self._texts[index]
        if kept.base < 0:
            return zlib.decompressobj(-15).decompress(kept.data)
        return zlib.decompressobj(-15, zdict=self._bytes_of(kept.base)[-_WINDOW:]).decompress(kept.data)
