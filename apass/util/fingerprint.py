"""A fingerprint of plain Python values: equal for equal contents, whatever the process; for adapters and caches."""

import hashlib
import os
import sys
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from threading import Lock
from types import MethodType
from typing import Any, Final, cast
from uuid import uuid4

__all__ = ["Fingerprints", "fingerprint_value"]

_SCALARS: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


_HELD: Final = 1024
"""How many objects that cannot be referred to weakly are held, because their fingerprints are known."""


class Fingerprints:
    """The fingerprints of objects that nobody changes, taken once for each object that lives."""

    def __init__(self, held: int = _HELD) -> None:
        self._most = held
        self._weak: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._held: OrderedDict[int, tuple[object, str]] = OrderedDict()

    def get(self, value: object) -> str | None:
        """Return the fingerprint of this very object, None if it is not known."""
        key = id(value)
        weak = self._weak.get(key)
        if weak is not None:
            return weak[1]
        held = self._held.get(key)
        return None if held is None else held[1]

    def keep(self, value: object, fingerprint: str) -> None:
        """Note the fingerprint of an object."""
        key = id(value)
        try:
            self._weak[key] = (weakref.ref(value, lambda _: self._weak.pop(key, None)), fingerprint)
        except TypeError:
            # Held, so that no other object takes its id.
            self._held[key] = (value, fingerprint)
            if len(self._held) > self._most:
                self._held.popitem(last=False)


class _Identities:
    """Names for objects that go by which object they are. An address is used again; a name is not, in no process."""

    def __init__(self) -> None:
        self._names = Fingerprints(held=2**16)
        self._lock = Lock()
        self._process = (0, "")
        self._count = 0

    def name(self, value: object) -> str:
        """Return the name of this very object, the same for as long as it lives."""
        with self._lock:
            known = self._names.get(value)
            if known is None:
                if self._process[0] != os.getpid():
                    self._process = (os.getpid(), uuid4().hex)
                self._count += 1
                known = f"{self._process[1]} {self._count}"
                self._names.keep(value, known)
            return known


_IDENTITIES: Final = _Identities()


def fingerprint_value(value: object) -> str:
    """Return 32 hex digits that depend on the contents of `value` alone.

    Scalars, lists, tuples, mappings (in any order), sets, enums, dataclasses and arrays go by what they hold; an object
    with a `__fingerprint__()` of its own by what that returns; a class or function by its name if it can be imported;
    anything else by its identity, so that two such objects never pass for the same, not even one that came after the
    other was gone, or lives in another process. Depth is no limit, cycles are none.

    >>> fingerprint_value({"a": [1, 2], "b": None}) == fingerprint_value({"b": None, "a": [1, 2]})
    True
    >>> fingerprint_value([1]) == fingerprint_value([1.0])
    False

    """
    known: dict[int, bytes] = {}
    depth_of: dict[int, int] = {}
    # What is being looked at stays alive, so that no id is used twice.
    held: list[object] = []
    stack: list[tuple[Any, tuple[str, list[object]] | None]] = [(value, None)]
    while stack:
        item, parts = stack.pop()
        key = id(item)
        if parts is not None:
            del depth_of[key]
            known[key] = _digest(parts[0].encode(), *_children(parts, known, depth_of))
        elif key not in known and key not in depth_of:
            parts = _parts(item)
            held.append(item)
            if parts is None:
                known[key] = _digest(*_atom(item))
                continue
            depth_of[key] = len(depth_of)
            stack.append((item, parts))
            stack.extend((child, None) for child in parts[1])
    return known[id(value)].hex()


def _children(
    parts: tuple[str, list[object]], known: Mapping[int, bytes], depth_of: Mapping[int, int]
) -> Iterator[bytes]:
    """Give the digests of what a container holds; one that is not known yet is a container around this one."""
    kind, children = parts
    digests = [known.get(id(child)) or f"cycle {len(depth_of) - depth_of[id(child)]}".encode() for child in children]
    if kind.startswith("mapping "):
        yield from sorted(key + value for key, value in zip(digests[::2], digests[1::2], strict=True))
    else:
        yield from sorted(digests) if kind.startswith("set ") else digests


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _parts(item: object) -> tuple[str, list[object]] | None:
    """Return kind and contents of a container, None for anything else."""
    name = _type_name(item)
    if hasattr(item, "__fingerprint__"):
        return None
    if isinstance(item, list | tuple):
        return f"sequence {name}", list(cast("list[object]", item))
    if isinstance(item, Mapping):
        return f"mapping {name}", [part for pair in cast("Mapping[object, object]", item).items() for part in pair]
    if isinstance(item, Set):
        return f"set {name}", list(cast("Set[object]", item))
    if isinstance(item, Enum):
        return f"enum {name}", [item.name]
    if is_dataclass(item) and not isinstance(item, type):
        return f"fields {name}", [part for field in fields(item) for part in (field.name, getattr(item, field.name))]
    return None


def _atom(item: object) -> Iterator[bytes]:
    yield _type_name(item).encode()
    if type(item) in _SCALARS:
        yield repr(item).encode("utf-8", "surrogatepass")
    elif hasattr(item, "__fingerprint__") and not isinstance(item, type):
        yield str(cast("Any", item).__fingerprint__()).encode()
    elif _is_array(item):
        array = cast("Any", item)
        yield f"{array.dtype} {tuple(array.shape)}".encode()
        yield array.tobytes()
    elif _can_be_imported(item):
        yield f"{cast('Any', item).__module__}:{cast('Any', item).__qualname__}".encode()
    elif isinstance(item, MethodType):
        yield f"{item.__func__.__qualname__} {_IDENTITIES.name(item.__self__)}".encode()
    else:
        yield _IDENTITIES.name(item).encode()


def _is_array(item: object) -> bool:
    """Tell an array whose bytes are its values, of numpy or of its like."""
    has_all = all(hasattr(item, name) for name in ("dtype", "shape", "tobytes"))
    return has_all and str(cast("Any", item).dtype) != "object"


def _can_be_imported(item: Any) -> bool:
    """Tell whether module and name of a class or function lead to it, in any process."""
    found: Any = sys.modules.get(getattr(item, "__module__", None) or "")
    for name in str(getattr(item, "__qualname__", "<")).split("."):
        found = getattr(found, name, None)
    return found is item


def _type_name(item: object) -> str:
    return f"{type(item).__module__}.{type(item).__qualname__}"
