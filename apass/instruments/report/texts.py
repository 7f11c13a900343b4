"""`TextStore`: stores texts of modules without duplicates, compressed."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from threading import Lock
from typing import Final

__all__ = ["LARGE", "Base", "StoredText", "TextStore", "text_at", "text_digests"]

LARGE: Final = 2**16
"""Length of a text from which it is compressed in a worker thread."""

_WINDOW: Final = 2**15
"""Window of deflate: only this many bytes of another text can serve as its dictionary."""
_PART: Final = 2**18
"""Bytes that are decompressed at once."""
_HELD: Final = 2**29
"""Maximum number of bytes in memory while digests are computed."""
_MOST_LINKS: Final = 24
"""Maximum length of a chain of texts, each compressed against the previous one."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """One text, compressed by raw deflate."""

    data: bytes
    """The compressed UTF-8 bytes."""
    base: int
    """The index of the text whose last 32 KB are the dictionary, or -1 for none."""
    links: int
    """The number of texts that must be decompressed before this one."""


@dataclass(frozen=True, slots=True)
class Base:
    """A text that the next, similar text is compressed against."""

    index: int
    """The index in the store, or -1 if the text was refused."""
    tail: bytes
    """The last 32 KB of the text."""


class TextStore:
    r"""Texts by index, without duplicates. `add` is thread-safe.

    Parameters:
        limit: the number of compressed bytes after which further texts are refused.

    >>> store = TextStore()
    >>> first = store.add("add(x, y)\n" * 50, None)
    >>> second = store.add("add(x, y)\n" * 50 + "one more", first)
    >>> [store.add("add(x, y)\n" * 50, second).index, first.index, second.index, store.text(1)[-8:]]
    [0, 0, 1, 'one more']

    """

    def __init__(self, limit: int = 2**28) -> None:
        self.limit: Final = limit
        """The number of compressed bytes after which further texts are refused."""
        self._lock = Lock()
        self._indices: dict[bytes, int] = {}
        self._texts: list[StoredText] = []
        self._bytes = 0
        self._refused = 0

    @property
    def texts(self) -> tuple[StoredText, ...]:
        """All stored texts, by index."""
        with self._lock:
            return tuple(self._texts)

    @property
    def refused(self) -> int:
        """Number of texts that were refused because `limit` was reached."""
        return self._refused

    def add(self, text: str, base: Base | None) -> Base:
        """Store a text and return it as the base of the next text.

        The text is compressed against `base`, the result of an earlier call for a similar text. The result has
        the index -1 if the limit is reached.
        """
        data = text.encode(errors="backslashreplace")
        digest = blake2b(data, digest_size=16).digest()
        tail = data[-_WINDOW:]
        with self._lock:
            index = self._indices.get(digest)
            if index is None and self._bytes >= self.limit:
                self._refused += 1
                return Base(-1, b"")
        if index is None:
            index = self._store(digest, data, base)
        return Base(index, tail)

    def digests(self) -> Mapping[bytes, int]:
        """Return the indices of the texts by their digests, for `merge`."""
        with self._lock:
            return dict(self._indices)

    def merge(self, texts: Sequence[StoredText], digests: Mapping[bytes, int], refused: int) -> Sequence[int]:
        """Add the texts of another store, and return their indices here; -1 if refused."""
        indices: list[int] = []
        with self._lock:
            self._refused += refused
            for digest, _ in sorted(digests.items(), key=lambda item: item[1]):
                stored = texts[len(indices)]
                base = -1 if stored.base < 0 else indices[stored.base]
                index = self._indices.get(digest, -1)
                if index < 0 and self._bytes < self.limit and (base >= 0) == (stored.base >= 0):
                    index = self._indices[digest] = len(self._texts)
                    links = 0 if base < 0 else self._texts[base].links + 1
                    self._texts.append(StoredText(stored.data, base, links))
                    self._bytes += len(stored.data)
                self._refused += index < 0
                indices.append(index)
        return indices

    def text(self, index: int) -> str:
        """Return the text at an index."""
        return text_at(self._texts, index)

    def _store(self, digest: bytes, data: bytes, base: Base | None) -> int:
        links = 0 if base is None or base.index < 0 else self._texts[base.index].links + 1
        if base is None or base.index < 0 or links > _MOST_LINKS:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15)
            base_index, links = -1, 0
        else:
            packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=base.tail)
            base_index = base.index
        stored = StoredText(packer.compress(data) + packer.flush(), base_index, links)
        with self._lock:
            index = self._indices.setdefault(digest, len(self._texts))  # another thread may have been faster
            if index == len(self._texts):
                self._texts.append(stored)
                self._bytes += len(stored.data)
        return index


def text_at(texts: Sequence[StoredText], index: int, limit: int | None = None) -> str:
    """Return the text at an index.

    Raises:
        ValueError: if the data are damaged, or a text on the way has more than `limit` bytes.

    """
    chain = [index]
    while texts[chain[-1]].base >= 0:
        base = texts[chain[-1]].base
        if base >= chain[-1]:
            raise ValueError(f"text {chain[-1]} is based on text {base}, which follows it")
        chain.append(base)
    data = b""
    for number in reversed(chain):
        parts: list[bytes] = []
        size = 0
        for part in _decompressed(texts[number], data[-_WINDOW:]):
            size += len(part)
            if limit is not None and size > limit:
                raise ValueError(f"text {number} has more than {limit:,} bytes")
            parts.append(part)
        data = b"".join(parts)
    return data.decode()


def text_digests(texts: Sequence[StoredText], limit: int) -> Sequence[tuple[str, int]]:
    """Return a digest and the number of bytes of each text.

    Raises:
        ValueError: if the data are damaged, or the texts together have more than `limit` bytes.

    """
    last_use = {text.base: number for number, text in enumerate(texts)}
    # The ends of the texts that later texts are compressed against.
    tails: dict[int, bytes] = {}
    held = 0
    results: list[tuple[str, int]] = []
    left = limit
    for number, text in enumerate(texts):
        if text.base >= 0 and text.base not in tails:
            raise ValueError(f"text {number} is based on text {text.base}, which does not precede it")
        digest, size, tail = blake2b(digest_size=16), 0, b""
        for part in _decompressed(text, tails.get(text.base, b"")):
            size += len(part)
            if size > left:
                raise ValueError(f"the texts have more than {limit:,} bytes")
            digest.update(part)
            tail = (tail + part)[-_WINDOW:]
        left -= size
        results.append((digest.hexdigest(), size))
        if last_use.get(text.base) == number:
            held -= len(tails.pop(text.base, b""))
        if number in last_use:
            tails[number] = tail
            held += len(tail)
            if held > _HELD:
                raise ValueError(f"the texts are based on more than {_HELD:,} bytes of others")
    return results


def _decompressed(text: StoredText, dictionary: bytes) -> Iterator[bytes]:
    """Iterate over the parts of a text, so that a small file cannot fill the memory.

    Raises:
        ValueError: if the data are damaged.

    """
    reader = zlib.decompressobj(-15) if text.base < 0 else zlib.decompressobj(-15, zdict=dictionary)
    data = text.data
    try:
        while not reader.eof:
            part = reader.decompress(data, _PART)
            data = reader.unconsumed_tail
            if not part and not data and not reader.eof:
                raise ValueError("a compressed text is incomplete")
            yield part
    except zlib.error as error:
        raise ValueError(f"a compressed text is damaged: {error}") from error
