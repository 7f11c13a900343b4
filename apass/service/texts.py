"""`TextEncoder`: the texts of a module in the events of a job, as differences."""

import zlib
from base64 import b64encode
from collections.abc import Mapping
from hashlib import blake2b
from threading import Lock
from typing import Any, Final

__all__ = ["MOST_BYTES", "TextEncoder"]

MOST_BYTES: Final = 2**21
"""Compressed bytes of all texts of a job."""

LARGEST: Final = 2**18
"""Compressed bytes of one text."""

LONGEST: Final = 2**23
"""Bytes of a difference that is compressed at all, and that a reader must decompress."""

_WINDOW: Final = 2**15
"""Window of deflate: only this many bytes of another text can serve as its dictionary."""


class TextEncoder:
    """Encodes texts for events of the kind `text`. `add` is thread-safe.

    The fields of an event are:

    - `text`: the index of the text;
    - `size`: its bytes in UTF-8;
    - `data`: the bytes that differ from the base, by raw deflate, in Base64. If the text is too large, it is missing;
    - `base`: the index of the base; missing if the data is the whole text;
    - `head` and `tail`: how many bytes at the start and the end of the base belong to this text.

    The dictionary of deflate is the last 32 KB of the bytes of the base that are replaced.

    >>> encoder = TextEncoder()
    >>> encoder.add("add(x, y)")
    (0, {'text': 0, 'size': 9, 'data': 'S0xJ0ajQUajUBAA='})
    >>> encoder.add("mul(x, y)")
    (1, {'text': 1, 'size': 9, 'data': 'yy3NAQA=', 'base': 0, 'head': 0, 'tail': 6})
    >>> encoder.add("add(x, y)")
    (0, None)

    """

    def __init__(self, limit: int = MOST_BYTES) -> None:
        self._left = limit
        self._lock = Lock()
        self._indices: dict[bytes, int] = {}
        self._base: tuple[int, bytes] | None = None
        """The last text that was sent."""

    def add(self, text: str) -> tuple[int, Mapping[str, Any] | None]:
        """Return the index of a text, and the fields of its event if the text is new."""
        data = text.encode(errors="backslashreplace")
        digest = blake2b(data, digest_size=16).digest()
        with self._lock:
            index = self._indices.get(digest)
            if index is not None:
                return index, None
            index = self._indices[digest] = len(self._indices)
            return index, {"text": index, "size": len(data), **self._encode(index, data)}

    def _encode(self, index: int, data: bytes) -> Mapping[str, Any]:
        fields: dict[str, Any] = {}
        differing, dictionary = data, b""
        if self._base is not None:
            number, base = self._base
            head = _common_start(base, data)
            tail = _common_start(base[head:][::-1], data[head:][::-1])
            fields = {"base": number, "head": head, "tail": tail}
            differing, dictionary = data[head : len(data) - tail], base[head : len(base) - tail][-_WINDOW:]
        if len(differing) > LONGEST:
            return {}
        packer = zlib.compressobj(6, zlib.DEFLATED, -15, zdict=dictionary)
        packed = packer.compress(differing) + packer.flush()
        if len(packed) > min(LARGEST, self._left):
            return {}
        self._left -= len(packed)
        self._base = index, data
        return {"data": b64encode(packed).decode(), **fields}


def _common_start(a: bytes, b: bytes) -> int:
    """Return how many bytes at the start are equal."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
