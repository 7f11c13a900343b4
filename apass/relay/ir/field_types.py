"""`check_of`: checks of the values of fields against their annotations."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Final, SupportsFloat, SupportsIndex, TypeAlias, Union, cast, get_args, get_origin

from apass.relay.ir.dim import SymbolicDim
from apass.relay.ir.immediates import IntImm

__all__ = ["Check", "check_of", "title_of"]

Check: TypeAlias = Callable[[object], bool]
"""Returns whether a value has a type."""


def title_of(hint: object) -> str:
    """Return the text of an annotation, for messages."""
    if isinstance(hint, type) and get_origin(hint) is None:
        return str(getattr(hint, "__name__", hint))
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", str(hint))


def check_of(hint: object) -> Check:
    """Return a function that checks whether a value has an annotated type.

    A number may be any number, and an integer may be symbolic. Annotations of other forms accept every value.
    """
    if hint in _CHECKS:
        return _CHECKS[hint]
    args, origin = get_args(hint), get_origin(hint)
    if origin is tuple and args[1:] == (...,):
        item = check_of(args[0])
        return lambda value: _is_sequence(value) and all(map(item, cast("Sequence[object]", value)))
    if origin in {Union, UnionType}:
        checks = [check_of(arg) for arg in args]
        return lambda value: any(check(value) for check in checks)
    if origin is Mapping:
        key, entry = map(check_of, args)
        return lambda value: isinstance(value, Mapping) and _all_entries(key, entry, cast("_Entries", value))
    kind = origin or hint
    if isinstance(kind, type) and kind is not tuple:
        return lambda value: isinstance(value, kind)
    return lambda value: True  # a field of an operator that a user registered


_Entries: TypeAlias = Mapping[object, object]


def _all_entries(key: Check, entry: Check, value: _Entries) -> bool:
    return all(key(name) and entry(item) for name, item in value.items())


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_int(value: object) -> bool:
    # A dimension may be symbolic. TVM writes a bool as an int, and the other way round.
    return isinstance(value, SupportsIndex | SymbolicDim)


def _is_float(value: object) -> bool:
    return isinstance(value, SupportsFloat) and not isinstance(value, str)


_CHECKS: Final[Mapping[object, Check]] = {
    int: _is_int,
    IntImm: _is_int,
    bool: _is_int,
    float: _is_float,
    str: lambda value: isinstance(value, str),
    type(None): lambda value: value is None,
}
