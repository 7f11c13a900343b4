"""Fingerprints of Python values: equal for equal contents, in every process."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from threading import Lock
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, cast
from uuid import uuid4

from apass.util.identity_cache import IdentityCache
from apass.util.imported_names import find_imported

__all__ = ["fingerprint_value"]

_SCALARS: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))

_BUILT_IN: Final = (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
"""Types of the attributes of classes that Python defines in C."""


class _Identities:
    """Unique names for objects that are compared by identity.

    An address may be reused by a later object. A name is never reused, in this process or in another.
    """

    def __init__(self) -> None:
        self._names = IdentityCache[str](held=2**16)
        self._lock = Lock()
        self._process = (0, "")
        self._count = 0

    def name(self, value: object) -> str:
        """Return the name of this object, the same during its whole lifetime."""
        with self._lock:
            name = self._names.get(value)
            if name is None:
                # A forked child inherits this object, but must not hand out its parent's names.
                if self._process[0] != os.getpid():
                    self._process = (os.getpid(), uuid4().hex)
                self._count += 1
                name = f"{self._process[1]} {self._count}"
                self._names.keep(value, name)
            return name


_IDENTITIES: Final = _Identities()

_CODE: Final = IdentityCache[str]()
"""The fingerprints of code objects, which cannot change. They are most of the fingerprint of a function."""


def fingerprint_value(value: object, unknown: list[object] | None = None) -> str:
    """Return 32 hex digits that depend only on the contents of `value`.

    The fingerprint is computed from:

    - the contents of scalars, lists, tuples, mappings (in any order), sets, enums, dataclasses and arrays;
    - the result of `__fingerprint__()`, if an object defines it;
    - the qualified name of a module, and of a class or function that can be imported;
    - the code, the defaults and the closure of any other function, and the members of any other class;
    - the function and the arguments of a `functools.partial` or a bound method;
    - the identity of any other object. Two such objects have different fingerprints, even if one is created after the
      other was destroyed, or in another process.

    Values may be nested to any depth and may contain cycles. Global variables that a function reads are not included.

    Parameters:
        value: the value.
        unknown: receives the objects that only their identity distinguishes, although they may change.

    >>> fingerprint_value({"a": [1, 2], "b": None}) == fingerprint_value({"b": None, "a": [1, 2]})
    True
    >>> fingerprint_value([1]) == fingerprint_value([1.0])
    False

    """
    digests: dict[int, bytes] = {}
    # Containers on the path from `value` to the current item, each with the number of containers around it.
    depth_of: dict[int, int] = {}
    # References to all visited items: a temporary item that was freed could have its id reused.
    held: list[object] = []
    # Each container is on the stack twice: to be entered (None), then to be combined after its children.
    stack: list[tuple[Any, tuple[str, list[object]] | None]] = [(value, None)]
    while stack:
        item, parts = stack.pop()
        key = id(item)
        if parts is not None:
            del depth_of[key]
            digests[key] = _digest(parts[0].encode(), *_children(parts, digests, depth_of))
            if type(item) is CodeType:
                _CODE.keep(item, digests[key].hex())
        elif key not in digests and key not in depth_of:
            held.append(item)
            code = _CODE.get(item) if type(item) is CodeType else None
            if code is not None:
                digests[key] = bytes.fromhex(code)
                continue
            parts = _parts(item)
            if parts is None:
                digests[key] = _digest(*_atom(item, unknown))
                continue
            depth_of[key] = len(depth_of)
            stack.append((item, parts))
            stack.extend((child, None) for child in parts[1])
    return digests[id(value)].hex()


def _children(
    parts: tuple[str, list[object]], digests: Mapping[int, bytes], depth_of: Mapping[int, int]
) -> Iterator[bytes]:
    """Iterate over the digests of a container's children."""
    kind, children = parts
    # A child without a digest is a container around this one. How many levels up it is identifies it in a cycle.
    values = [digests.get(id(child)) or f"cycle {len(depth_of) - depth_of[id(child)]}".encode() for child in children]
    if kind.startswith("mapping "):
        yield from sorted(key + value for key, value in zip(values[::2], values[1::2], strict=True))
    else:
        yield from sorted(values) if kind.startswith("set ") else values


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # The length separates the parts: "a", "b" and "ab" differ.
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _parts(item: object) -> tuple[str, list[object]] | None:
    """Return the kind and the children of a container, or None for any other value."""
    value = item  # keeps its declared type, which the checks below narrow
    name = _type_name(item)
    if hasattr(item, "__fingerprint__") and not isinstance(item, type):
        return f"object {name}", [cast("Any", item).__fingerprint__()]
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
    return _code_parts(value)


def _code_parts(item: object) -> tuple[str, list[object]] | None:
    """Return kind and children of a function or class; None for any other value."""
    name = _type_name(item)
    if isinstance(item, partial):
        applied = cast("partial[object]", item)
        return f"partial {name}", [applied.func, applied.args, applied.keywords]
    if isinstance(item, MethodType):
        return "method", [item.__func__, item.__self__]
    if isinstance(item, BuiltinFunctionType) and not _can_be_imported(item):
        return f"builtin {item.__qualname__}", [item.__self__]
    if isinstance(item, staticmethod | classmethod):
        return name, [cast("staticmethod[..., object]", item).__func__]
    if isinstance(item, property):
        return name, [item.fget, item.fset, item.fdel]
    if isinstance(item, CodeType):
        # Without file and lines, so that code may move within its file.
        names = (item.co_name, item.co_names, item.co_varnames, item.co_freevars, item.co_argcount, item.co_flags)
        return name, [item.co_code, item.co_consts, names]
    if isinstance(item, FunctionType | type) and not _can_be_imported(item):
        if isinstance(item, type):
            members = {key: value for key, value in vars(item).items() if _is_defined(key, value)}
            return f"class {item.__qualname__}", [item.__bases__, members]
        cells = [_contents(cell) for cell in item.__closure__ or ()]
        return f"function {item.__qualname__}", [item.__code__, item.__defaults__, item.__kwdefaults__, cells]
    return None


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not assigned yet
        return "empty"


def _is_defined(name: str, value: object) -> bool:
    """Return whether the text of a class defines this member, rather than Python."""
    is_special = name == "_abc_impl" or (name.startswith("__") and name.endswith("__"))
    return not is_special or isinstance(value, FunctionType)


def _atom(item: object, unknown: list[object] | None) -> Iterator[bytes]:
    yield _type_name(item).encode()
    if type(item) in _SCALARS:
        yield repr(item).encode("utf-8", "surrogatepass")
    elif _is_array(item):
        array = cast("Any", item)
        yield f"{array.dtype} {tuple(array.shape)}".encode()
        yield array.tobytes()
    elif isinstance(item, ModuleType):
        yield item.__name__.encode()
    elif _can_be_imported(item) or isinstance(item, _BUILT_IN):
        owner = getattr(item, "__objclass__", item)
        yield f"{owner.__module__}:{cast('Any', item).__qualname__}".encode()
    else:
        if unknown is not None:
            unknown.append(item)
        yield _IDENTITIES.name(item).encode()


def _is_array(item: object) -> bool:
    """Return whether `item` is a NumPy-like array whose bytes determine its values."""
    has_all = all(hasattr(item, name) for name in ("dtype", "shape", "tobytes"))
    return has_all and str(cast("Any", item).dtype) != "object"


def _can_be_imported(item: Any) -> bool:
    """Return whether the module and qualified name of a class or function lead to it."""
    name = getattr(item, "__qualname__", None)
    return name is not None and find_imported(f"{getattr(item, '__module__', None)}:{name}") is item


def _type_name(item: object) -> str:
    return f"{type(item).__module__}.{type(item).__qualname__}"
