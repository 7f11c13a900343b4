"""Attributes: the constant parameters of operator calls, and of functions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final, Self, TypeAlias, cast

from apass.errors import did_you_mean
from apass.relay.ir.base import Node
from apass.relay.ir.immediates import Integer, IntImm, immediate, normal_dtype

__all__ = ["Attrs", "DictAttrs"]


@dataclass(frozen=True, slots=True)
class Attrs(Node):
    """Base of operator attributes.

    Each operator has a subclass: a frozen dataclass, in which every field is documented. Read a field by name
    (`attrs.strides`) or by key (`attrs["strides"]`).

    As in TVM, integers in a tuple, in an optional field and in a field annotated as `Integer` are `IntImm`, which are
    ints with a `value`. The names of element types are canonical, so that `int` is `int32`.
    """

    def __post_init__(self) -> None:
        """Convert the values of some fields to the form that TVM gives them."""
        for name, convert in _conversions(type(self)):
            value: object = getattr(self, name)
            converted = convert(value)
            if converted is not value:
                object.__setattr__(self, name, converted)

    def __getitem__(self, name: str) -> object:
        """Return the value of a field.

        Raises:
            KeyError: if the field does not exist. The message suggests a similar name.

        """
        if name not in self.keys():
            raise KeyError(f"{type(self).__name__} has no attribute {name!r}{did_you_mean(name, self.keys())}")
        value: object = getattr(self, name)
        return value

    def get_int(self, key: str) -> int:
        """Return a numeric field as an int. Raise TypeError if it is not a number."""
        return int(cast("int", self[key]))

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """Return a sequence of numbers as ints. Raise TypeError if it is not one."""
        return tuple(map(int, cast("tuple[int, ...]", self[key])))

    def get_str(self, key: str) -> str:
        """Return a field as a string."""
        return str(self[key])

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields in print order."""
        return tuple(field.name for field in fields(self))

    def items(self) -> Iterator[tuple[str, object]]:
        """Iterate over names and values."""
        return ((name, getattr(self, name)) for name in self.keys())

    def replaced(self, **changes: object) -> Self:
        """Return these attributes with some fields changed.

        Raises:
            TypeError: if a field does not exist.

        """
        make = cast("Callable[..., Self]", type(self))
        return make(**{**dict(self.items()), **changes})

    def non_default(self) -> Iterator[tuple[str, object]]:
        """Iterate over names and values of non-default fields; only these are printed."""
        for field in fields(self):
            value: object = getattr(self, field.name)
            # Compare the types too: `1 == True` and `1 == 1.0`, but their texts differ.
            if value != field.default or _kind(value) is not _kind(field.default):
                yield field.name, value


def _kind(value: object) -> type:
    return int if type(value) is IntImm else type(value)


_Conversions: TypeAlias = tuple[tuple[str, Callable[[object], object]], ...]

_CONVERSIONS: Final[dict[type[Attrs], _Conversions]] = {}


def _conversions(kind: type[Attrs]) -> _Conversions:
    """Return the names of the fields to convert, each with its conversion."""
    if kind in _CONVERSIONS:
        return _CONVERSIONS[kind]
    result: list[tuple[str, Callable[[object], object]]] = []
    for field in fields(kind):
        annotation = str(field.type)
        if "tuple[" in annotation or annotation in _INTEGERS:
            result.append((field.name, immediate))
        elif annotation in _STRINGS and (field.name == "dtype" or field.name.endswith("_dtype")):
            result.append((field.name, _dtype))
    _CONVERSIONS[kind] = tuple(result)
    return _CONVERSIONS[kind]


_INTEGERS: Final = ("int | None", "Integer", str(Integer))
_STRINGS: Final = ("<class 'str'>", "str", "str | None")


def _dtype(name: object) -> object:
    return normal_dtype(name) if isinstance(name, str) else name


_NO_ENTRIES: Final[Mapping[str, object]] = MappingProxyType({})


class DictAttrs(Attrs):
    """The attributes of a function: a mapping with arbitrary names.

    >>> attrs = DictAttrs({"Primitive": 1})
    >>> attrs["Primitive"], attrs.Primitive
    (1, 1)
    """

    __slots__ = ("_entries",)
    _entries: Mapping[str, object]

    def __init__(self, entries: Mapping[str, object] = _NO_ENTRIES) -> None:
        values = {name: immediate(entry) for name, entry in entries.items()}
        object.__setattr__(self, "_entries", MappingProxyType(values))

    def __getitem__(self, name: str) -> object:
        """Return an entry. Raise KeyError if it does not exist."""
        return self._entries[name]

    def __getattr__(self, name: str) -> object:
        """Return an entry. Raise AttributeError if it does not exist."""
        if name.startswith("_") or name not in self._entries:
            raise AttributeError(f"no attribute {name!r}; expected one of: {', '.join(self) or 'none'}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        """Return whether an entry exists."""
        return name in self._entries

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._entries)

    def __eq__(self, other: object) -> bool:
        """Compare the entries, regardless of order."""
        return isinstance(other, DictAttrs) and self._entries == other._entries

    def __hash__(self) -> int:
        """Return a hash of the names, consistent with `==`."""
        # Values may be unhashable.
        return hash(frozenset(self._entries))

    def __repr__(self) -> str:
        """Return the constructor call."""
        return f"DictAttrs({dict(self._entries)!r})"

    def __reduce__(self) -> tuple[type["DictAttrs"], tuple[dict[str, object]]]:
        """Return the entries. `pickle` would look up methods as entries, without end."""
        return DictAttrs, (dict(self._entries),)

    def get(self, name: str, default: object = None) -> object:
        """Return an entry, or `default` if it does not exist."""
        return self._entries.get(name, default)

    def keys(self) -> tuple[str, ...]:
        """Return the names in insertion order."""
        return tuple(self._entries)

    def items(self) -> Iterator[tuple[str, object]]:
        """Iterate over names and values."""
        return iter(self._entries.items())

    def non_default(self) -> Iterator[tuple[str, object]]:
        """Iterate over all entries; entries have no defaults."""
        return self.items()

    def updated(self, entries: Mapping[str, object]) -> "DictAttrs":
        """Return a copy with `entries` added or replaced."""
        return DictAttrs({**self._entries, **entries})
