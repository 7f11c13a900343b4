"""The keys of stored results: what the result of a pass depends on."""

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from types import FunctionType
from typing import Final, cast

from apass.core.config import ConfigKey, config_key
from apass.core.context import PassContext
from apass.core.store import stored_identity
from apass.util.fingerprint import fingerprint_value
from apass.util.imported_names import find_imported

__all__ = ["KeyParts", "digest_of", "key_of", "own_version", "short_text", "store_key"]

_LONGEST_TEXT: Final = 60
"""Characters of a value in the recorded parts of a key; a longer one is recorded as its fingerprint."""
_SCALARS: Final = frozenset((bool, int, float, str, bytes, type(None)))

KeyParts = Callable[[], Mapping[str, str]]
"""Returns the parts of the key of a pass, as short texts by name."""


@lru_cache(maxsize=1024)
def digest_of(pass_key: str) -> str:
    """Return the digest of the key of a pass, which the store uses."""
    return sha256(pass_key.encode()).hexdigest()[:32]


def store_key(pass_key: str, fingerprint: str) -> str:
    """Return where a store has the result of a pass.

    Parameters:
        pass_key: the digest of the key of the pass.
        fingerprint: the fingerprint of the module or the function.

    """
    return f"pass/6/{pass_key}/{fingerprint}"


@cache
def own_version() -> str:
    """Return the version of apass, which is part of every key."""
    try:
        return version_of("apass")
    except PackageNotFoundError:
        return "unknown"


def key_of(name: str, version: str, state: object, ctx: PassContext, keys: Sequence[ConfigKey] | None) -> str | None:
    """Return the cache key of a pass; None with a StoreWarning if it cannot be cached.

    Parameters:
        name: the name and the definition of the pass.
        version: the version of the pass.
        state: its options, its code, and the analyses that it requires.
        ctx: the context.
        keys: the relevant config options; None for all that are set.

    """
    # Without `config_keys` the result may depend on any option, so every option that is set counts.
    config = dict(ctx.config) if keys is None else {config_key(key): ctx.config[key] for key in keys}
    contents = state, ctx.opt_level, config
    plain = _plain_key(contents)
    identity = (
        stored_identity(f"pass {name}", contents) if plain is None else _plain_identity(name, _Plain(contents, plain))
    )
    return None if identity is None else f"apass {own_version()}: {name}@{version} {identity}"


def short_text(value: object) -> str:
    """Return a short text of a value in a key, which differs for different values."""
    text = repr(value) if type(value) in _SCALARS or _plain_key(value) is not None else ""
    return text if text and len(text) <= _LONGEST_TEXT and " at 0x" not in text else f"#{fingerprint_value(value)[:12]}"


@lru_cache(maxsize=1024)
def _plain_identity(name: str, plain: "_Plain") -> str | None:
    """Return `stored_identity` of scalars, classes and functions.

    A context runs a pass on thousands of modules, and a fingerprint takes as long as a small pass.
    """
    return stored_identity(f"pass {name}", plain.value)


class _Plain:
    """A value with a hashable copy of its contents."""

    __slots__ = ("key", "value")

    def __init__(self, value: object, key: Hashable) -> None:
        self.value = value
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plain) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _plain_key(value: object) -> Hashable | None:
    """Return a key that is equal only for equal contents; None if there is none."""
    kind = type(value)
    if kind in _SCALARS:
        # The type distinguishes 1 from True, and the text 0.0 from -0.0.
        return kind, repr(value) if kind is float else value
    if kind is tuple or kind is list:
        if not value:
            return kind
        items = [_plain_key(item) for item in cast("Sequence[object]", value)]
        return None if None in items else (kind, *items)
    if kind is dict:
        pairs = [_plain_key(pair) for pair in cast("dict[object, object]", value).items()]
        return None if None in pairs else (kind, frozenset(pairs))
    if isinstance(value, FunctionType):
        return _function_key(value)
    # A local class is identified by its members, which may change.
    return (type, value) if isinstance(value, type) and _is_imported(value) else None


def _function_key(function: FunctionType) -> Hashable | None:
    """Return a key of code, defaults and closure.

    It is None if the closure has other values than scalars.
    """
    if hasattr(function, "__fingerprint__"):
        return None
    name = (FunctionType, function.__module__, function.__qualname__)
    if _is_imported(function):
        return name
    cells: list[object] = []
    try:
        cells += [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable is not assigned yet
        return None
    # Other contents may refer to the function itself.
    if any(type(value) not in _SCALARS for value in cells):
        return None
    state = _plain_key([cells, function.__defaults__, function.__kwdefaults__])
    return None if state is None else (*name, function.__code__, state)


def _is_imported(value: type | FunctionType) -> bool:
    """Return whether module and qualified name lead to a class or function."""
    module = sys.modules.get(value.__module__)
    if module is not None and vars(module).get(value.__qualname__) is value:
        return True
    return find_imported(f"{value.__module__}:{value.__qualname__}") is value
