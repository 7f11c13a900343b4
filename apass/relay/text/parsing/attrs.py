"""`AttrsBuilder`: grammar actions for attributes of calls and functions."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import inf, nan
from typing import Final, NamedTuple, cast

from apass.errors import did_you_mean
from apass.relay.errors import UnknownTypeKeyError
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.expr import Op
from apass.relay.ir.type_keys import attrs_type_of
from apass.relay.text.literals import number_of, string_of, whole_of
from apass.relay.text.parsing.source import TextError
from apass.relay.text.parsing.types import TypeBuilder

__all__ = ["AttrEntry", "AttrsBuilder"]

_NAMED: Final[Mapping[str, object]] = {"None": None, "nullptr": None, "inff": inf, "inf": inf, "nanf": nan, "nan": nan}
_TYPE_KEY: Final = "attrs_type_key"


class AttrEntry(NamedTuple):
    """A parsed attribute with its location."""

    name: str
    value: object
    start: int
    end: int


@cache
def _names_of(op: Op) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of all attributes of an operator, and of the required ones."""
    all_fields = () if op.attrs_type is None else fields(op.attrs_type)
    required = (field.name for field in all_fields if field.default is MISSING and field.default_factory is MISSING)
    return tuple(field.name for field in all_fields), tuple(required)


class AttrsBuilder(TypeBuilder):
    """Builder of attributes and their values."""

    def attr(self, picked: tuple[str, object], start: int, end: int) -> AttrEntry:
        """Return a name and value as an entry."""
        name, value = picked
        return AttrEntry(name, value, start, start + len(name))

    def attr_number(self, picked: str, start: int, end: int) -> int | float:
        """Return a number, ignoring its suffix."""
        return self._literal(number_of, picked, start, end)

    def attr_integers(self, picked: str, start: int, end: int) -> tuple[int, ...]:
        """Return a sequence of integers."""
        return tuple(self._literal(whole_of, text.strip(), start, end) for text in picked[1:-1].split(","))

    def attr_string(self, picked: str, start: int, end: int) -> str:
        """Return a string."""
        return string_of(picked)

    def attr_true(self, picked: object, start: int, end: int) -> bool:
        """Return True."""
        return True

    def attr_false(self, picked: object, start: int, end: int) -> bool:
        """Return False."""
        return False

    def attr_name(self, picked: str, start: int, end: int) -> object:
        """Return the value of a name: None, infinity or NaN."""
        if picked not in _NAMED:
            raise TextError(
                f"`{picked}` is not an attribute value", start, end, f'write "{picked}" if it is meant to be a string'
            )
        return _NAMED[picked]

    def attr_minus_name(self, picked: tuple[str, str], start: int, end: int) -> float:
        """Return minus infinity."""
        value = self.attr_name(picked[1], start, end)
        if not isinstance(value, float):
            raise TextError(f"`{picked[1]}` is not a number", start, end)
        return -value

    def no_attr_values(self, picked: object, start: int, end: int) -> tuple[object, ...]:
        """Return an empty sequence."""
        return ()

    def attr_values(self, picked: list[object], start: int, end: int) -> tuple[object, ...]:
        """Return a sequence of values."""
        return self._sequence(picked, start, end)

    def attr_group(self, picked: list[object], start: int, end: int) -> object:
        """Return the value in parentheses, or a sequence of several values."""
        return picked[0] if len(picked) == 1 else self._sequence(picked, start, end)

    def _sequence(self, items: list[object], start: int, end: int) -> tuple[object, ...]:
        depth, parts = 0, items
        while parts:
            depth += 1
            if depth > self._limits.nesting:
                message = f"values are nested more than {depth - 1} levels deep, which is the limit TextLimits.nesting"
                raise TextError(message, start, end)
            parts = [inner for part in parts if isinstance(part, tuple) for inner in cast("tuple[object, ...]", part)]
        return tuple(items)

    def _entries(self, attrs: list[AttrEntry]) -> dict[str, object]:
        """Return the attributes by name."""
        values: dict[str, object] = {}
        for entry in attrs:
            if entry.name in values:
                raise TextError(f"duplicate attribute `{entry.name}`", entry.start, entry.end)
            values[entry.name] = entry.value
        return values

    def _attrs_of_op(self, op: Op, attrs: list[AttrEntry], start: int, end: int) -> Attrs | None:
        """Return the attributes of a call of an operator."""
        names, required = _names_of(op)
        for entry in attrs:
            if entry.name not in names:
                hint = did_you_mean(entry.name, names, listing="it has: ") or "; it has none"
                raise TextError(f"`{op.name}` has no attribute `{entry.name}`{hint}", entry.start, entry.end)
        values = self._entries(attrs)
        for name in required:
            if name not in values:
                raise TextError(f"`{op.name}` requires the attribute `{name}`", start, end)
        try:
            return op.make_attrs(**values)
        except (TypeError, ValueError) as error:
            raise TextError(f"invalid attributes of `{op.name}`: {error}", start, end) from error

    def _attrs_by_key(self, attrs: list[AttrEntry], start: int, end: int) -> Attrs | None:
        """Return the attributes of a call whose callee is not an operator.

        The entry `attrs_type_key` selects the class.
        """
        entries = self._entries(attrs)
        if not entries:
            return None
        key = entries.pop(_TYPE_KEY, "DictAttrs")
        try:
            kind = attrs_type_of(str(key))
            return DictAttrs(entries) if kind is DictAttrs else kind(**entries)
        except (UnknownTypeKeyError, TypeError, ValueError) as error:
            raise TextError(f"invalid attributes: {error}", start, end) from error
