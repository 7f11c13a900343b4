"""Attributes: the parameters of an operator's call that are not expressions, and those of a function."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final, Self, cast

from apass.errors import did_you_mean

__all__ = ["Attrs", "DictAttrs"]


@dataclass(frozen=True, slots=True)
class Attrs:
    """The base of the attributes of operators: each operator's class is a frozen dataclass, every field documented.

    Fields are read by name (`attrs.strides`) or by key (`attrs["strides"]`).
    """

    def __getitem__(self, name: str) -> object:
        """Return a field by its name.

        Raises:
            KeyError: if there is none; the message suggests the nearest one.

        """
        if name not in self.keys():
            raise KeyError(f"{type(self).__name__} has no attribute {name!r}{did_you_mean(name, self.keys())}")
        value: object = getattr(self, name)
        return value

    def get_int(self, key: str) -> int:
        """Return a field that is a number, as an int; TypeError if it is none."""
        return int(cast("int", self[key]))

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """Return a field that is several numbers, as ints; TypeError if it is not."""
        return tuple(map(int, cast("tuple[int, ...]", self[key])))

    def get_str(self, key: str) -> str:
        """Return a field as a string."""
        return str(self[key])

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields, in the order in which they are printed."""
        return tuple(one.name for one in fields(self))

    def items(self) -> Iterator[tuple[str, object]]:
        """Go over names and values."""
        return ((name, getattr(self, name)) for name in self.keys())

    def replaced(self, **changes: object) -> Self:
        """Return these attributes with some fields changed.

        Raises:
            TypeError: if there is no field of a name.

        """
        make = cast("Callable[..., Self]", type(self))
        return make(**{**dict(self.items()), **changes})

    def non_default(self) -> Iterator[tuple[str, object]]:
        """Go over names and values of the fields that differ from their defaults: those that are printed."""
        for one in fields(self):
            value: object = getattr(self, one.name)
            if value != one.default or type(value) is not type(one.default):
                yield one.name, value


_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class DictAttrs(Attrs):
    """The attributes of a function: names chosen by whoever sets them.

    >>> attrs = DictAttrs({"Primitive": 1})
    >>> attrs["Primitive"], attrs.Primitive
    (1, 1)
    """

    __slots__ = ("_entries",)
    _entries: Mapping[str, object]

    def __init__(self, entries: Mapping[str, object] = _NOTHING) -> None:
        object.__setattr__(self, "_entries", MappingProxyType(dict(entries)))

    def __getitem__(self, name: str) -> object:
        """Return an entry; KeyError if there is none."""
        return self._entries[name]

    def __getattr__(self, name: str) -> object:
        """Return an entry; AttributeError if there is none."""
        if name.startswith("_") or name not in self._entries:
            raise AttributeError(f"there is no attribute {name!r} among {', '.join(self) or 'none'}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether there is an entry of the name."""
        return name in self._entries

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        """Go over the names."""
        return iter(self._entries)

    def __eq__(self, other: object) -> bool:
        """Compare the entries, whatever their order."""
        return isinstance(other, DictAttrs) and self._entries == other._entries

    def __hash__(self) -> int:
        """Hash in keeping with `==`."""
        return hash(frozenset(self._entries))

    def __repr__(self) -> str:
        """Return how it is made."""
        return f"DictAttrs({dict(self._entries)!r})"

    def get(self, name: str, default: object = None) -> object:
        """Return an entry, `default` if there is none."""
        return self._entries.get(name, default)

    def keys(self) -> tuple[str, ...]:
        """Return the names, in the order in which they were set."""
        return tuple(self._entries)

    def items(self) -> Iterator[tuple[str, object]]:
        """Go over names and values."""
        return iter(self._entries.items())

    def non_default(self) -> Iterator[tuple[str, object]]:
        """Go over all entries: none has a default."""
        return self.items()

    def updated(self, entries: Mapping[str, object]) -> "DictAttrs":
        """Return these attributes with `entries` set as well."""
        return DictAttrs({**self._entries, **entries})
