"""What the parser makes of attributes: of operators' calls and of functions."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from math import inf, nan
from typing import Final, NamedTuple

from apass.errors import did_you_mean
from apass.relay.expr import Op
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.text.literals import number_of, string_of
from apass.relay.text.metadata import MetadataError, attrs_type_of
from apass.relay.text.parsing.source import TextError
from apass.relay.text.parsing.types import TypeBuilder

__all__ = ["AttrsBuilder", "Entry"]

_NAMED: Final[Mapping[str, object]] = {"None": None, "nullptr": None, "inff": inf, "inf": inf, "nanf": nan, "nan": nan}
_TYPE_KEY: Final = "attrs_type_key"


class Entry(NamedTuple):
    """An attribute as it is written."""

    name: str
    value: object
    start: int
    end: int


@cache
def _names_of(op: Op) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the attributes of an operator, and of those that have no default."""
    known = () if op.attrs_type is None else fields(op.attrs_type)
    required = (one.name for one in known if one.default is MISSING and one.default_factory is MISSING)
    return tuple(one.name for one in known), tuple(required)


class AttrsBuilder(TypeBuilder):
    """Makes attributes, and their values."""

    def attr(self, picked: tuple[str, object], start: int, end: int) -> Entry:
        """Return an attribute."""
        name, value = picked
        return Entry(name, value, start, start + len(name))

    def attr_number(self, picked: str, start: int, end: int) -> int | float:
        """Return a number; the suffix has no meaning."""
        return number_of(picked)

    def attr_integers(self, picked: str, start: int, end: int) -> tuple[int, ...]:
        """Return integers."""
        return tuple(map(int, picked[1:-1].split(",")))

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
        """Return what has a name: nothing, infinity, or not a number."""
        if picked not in _NAMED:
            raise TextError(
                f"`{picked}` is no value of an attribute", start, end, f'write "{picked}" if it is meant to be a string'
            )
        return _NAMED[picked]

    def attr_minus_name(self, picked: tuple[str, str], start: int, end: int) -> float:
        """Return minus infinity."""
        value = self.attr_name(picked[1], start, end)
        if not isinstance(value, float):
            raise TextError(f"`{picked[1]}` is no number", start, end)
        return -value

    def no_attr_values(self, picked: object, start: int, end: int) -> tuple[object, ...]:
        """Return a sequence of nothing."""
        return ()

    def attr_values(self, picked: list[object], start: int, end: int) -> tuple[object, ...]:
        """Return a sequence."""
        return tuple(picked)

    def attr_group(self, picked: list[object], start: int, end: int) -> object:
        """Return a value in parentheses, or a sequence if there are several."""
        return picked[0] if len(picked) == 1 else tuple(picked)

    def _entries(self, attrs: list[Entry]) -> dict[str, object]:
        """Return the attributes by name."""
        found: dict[str, object] = {}
        for one in attrs:
            if one.name in found:
                raise TextError(f"the attribute `{one.name}` is given twice", one.start, one.end)
            found[one.name] = one.value
        return found

    def _attrs_of_op(self, op: Op, attrs: list[Entry], start: int, end: int) -> Attrs | None:
        """Return the attributes of an operator's call."""
        names, required = _names_of(op)
        for one in attrs:
            if one.name not in names:
                hint = did_you_mean(one.name, names, listing="it has: ") or "; it has none"
                raise TextError(f"`{op.name}` has no attribute `{one.name}`{hint}", one.start, one.end)
        given = self._entries(attrs)
        for name in required:
            if name not in given:
                raise TextError(f"`{op.name}` needs the attribute `{name}`", start, end)
        try:
            return op.make_attrs(**given)
        except (TypeError, ValueError) as error:
            raise TextError(f"the attributes of `{op.name}` are not right: {error}", start, end) from error

    def _attrs_by_key(self, attrs: list[Entry], start: int, end: int) -> Attrs | None:
        """Return the attributes of the call of something else than an operator, of the class that is named."""
        entries = self._entries(attrs)
        if not entries:
            return None
        key = entries.pop(_TYPE_KEY, "DictAttrs")
        try:
            kind = attrs_type_of(str(key))
            return DictAttrs(entries) if kind is DictAttrs else kind(**entries)
        except (MetadataError, TypeError, ValueError) as error:
            raise TextError(f"the attributes are not right: {error}", start, end) from error
