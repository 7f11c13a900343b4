"""`read_parameters`: the parameters of a request, as a type."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from apass.errors import did_you_mean
from apass.service.api import EVENT_KINDS
from apass.service.http.problems import InvalidParameterError
from apass.service.jobs import JobState

__all__ = ["decode_object", "read_object", "read_parameters"]

StructT = TypeVar("StructT", bound=Struct)

LONGEST: Final = 1 << 16
"""Characters of one value."""

CHOICES: Final[Mapping[str, Iterable[str]]] = {"state": JobState, "kinds": EVENT_KINDS}
"""The values of the parameters that have only some."""


def read_parameters(items: Iterable[tuple[str, str]], kind: type[StructT]) -> StructT:
    """Return the parameters in a query or a form.

    A list is repeated, or has several elements between commas.

    Raises:
        InvalidParameterError: if a parameter is unknown, given twice, or has an invalid value.

    """
    values: dict[str, Any] = {}
    for name, value in items:
        _check_name(name, kind)
        if len(value) > LONGEST:
            raise InvalidParameterError(f"{name} has {len(value):,} characters; the limit is {LONGEST:,}")
        # No database stores a null character in a text.
        if "\x00" in value:
            raise InvalidParameterError(f"{name} must not contain a null character")
        if _is_list(kind)[name]:
            values.setdefault(name, []).extend(filter(None, map(str.strip, value.split(","))))
        elif name in values:
            raise InvalidParameterError(f"{name} is given several times; expected one value")
        else:
            values[name] = value
    return read_object(values, kind, strict=False)


def read_object(values: Mapping[str, Any], kind: type[StructT], *, strict: bool = True) -> StructT:
    """Return the members of an object as a type.

    Parameters:
        values: the members.
        kind: the type.
        strict: whether a text is no number.

    Raises:
        InvalidParameterError: if a member is unknown, or has an invalid value.

    """
    for name in values:
        _check_name(name, kind)
    try:
        return convert(values, kind, strict=strict)
    except ValidationError as error:
        expected, _, path = str(error).rpartition(" - at `$.")
        name = path.rstrip("`").partition("[")[0]
        choices = f"one of {', '.join(CHOICES[name])}" if name in CHOICES else expected.partition(", got")[0]
        raise InvalidParameterError(
            f"{name} must be {choices.removeprefix('Expected ')}, got {str(values[name])[:100]!r}"
        ) from error


def decode_object(text: str | bytes, name: str) -> dict[str, Any]:
    """Return an object of JSON.

    Parameters:
        text: the object.
        name: what it is, for a message.

    Raises:
        InvalidParameterError: if it is none.

    """
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParameterError(f"{name} must be an object of JSON: {error}") from error


def _check_name(name: str, kind: type[Struct]) -> None:
    """Raise InvalidParameterError unless a type has a parameter with a name."""
    known = _is_list(kind)
    if name not in known:
        near = did_you_mean(name, known, listing="parameters are ", lister="/v1/openapi.json")
        raise InvalidParameterError(f"there is no parameter {name[:100]!r}{near if known else '; this path has none'}")


@cache
def _is_list(kind: type[Struct]) -> Mapping[str, bool]:
    """Return whether each parameter is a list."""
    return {item.name: isinstance(item.default, tuple) for item in fields(kind)}
