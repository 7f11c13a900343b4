"""Reading of the files of a reproducer, which may come from a stranger."""

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from apass.errors import ReproducerError
from apass.instruments.support.paths import file_name
from apass.util.files import read_regular
from apass.util.typed_values import convert

__all__ = ["Record", "check_bare_name", "read_record", "shorten"]

MAX_RECORD: Final = 64 * 2**20
"""Maximum size of a JSON file in bytes."""

_LONGEST: Final = 300
"""Maximum number of characters that a message quotes from a file."""

_LISTED: Final = 5
"""Maximum number of folders in a message."""


class Record:
    """The fields of a JSON object, with the location that messages give."""

    def __init__(self, location: str, data: Mapping[str, Any]) -> None:
        self._location = location
        self._data = data

    def field(self, name: str, tp: Any) -> Any:
        """Return a field as a value of type `tp`.

        Raises:
            ReproducerError: if the field is missing, or its value is of another type.

        """
        if name not in self._data:
            raise ReproducerError(f"{self._location} has no field {name!r}; write the reproducer again")
        try:
            return convert(self._data[name], tp)
        except (TypeError, RecursionError) as error:
            raise self.error(name, str(error)) from None

    def record(self, name: str) -> "Record":
        """Return a field that is an object."""
        return Record(f"{self._location}, field {name!r},", self.field(name, Mapping[str, Any]))

    def choice(self, name: str, choices: tuple[str | None, ...]) -> Any:
        """Return a field that has one of some values."""
        value = self.field(name, str | None)
        if value not in choices:
            expected = ", ".join("null" if choice is None else choice for choice in choices)
            raise self.error(name, f"expected one of {expected}, got {value!r}")
        return value

    def error(self, name: str, message: str) -> ReproducerError:
        """Return an error about a field."""
        return ReproducerError(f"{self._location} has an invalid field {name!r}: {shorten(message)}")


def read_record(folder: Path, name: str) -> Record:
    """Return the JSON object in a file of a folder.

    Raises:
        ReproducerError: if the file cannot be read, is too large, or holds no JSON object.

    """
    path = folder / name
    try:
        data = read_regular(path, MAX_RECORD)
    except OSError as error:
        hint = _hint(folder, name)
        raise ReproducerError(f"no reproducer in {str(folder)!r}: {error}; {hint}") from None
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite_float
        )
    except RecursionError:
        raise ReproducerError(f"{path} is no reproducer: the JSON is nested too deeply") from None
    except ValueError as error:  # not UTF-8, not JSON, a number with too many digits, or an error of a hook
        raise ReproducerError(f"{path} is no reproducer: {shorten(error)}") from None
    if not isinstance(value, dict):
        raise ReproducerError(f"{path} is no reproducer: expected a JSON object, got {shorten(repr(value))}")
    return Record(str(path), cast("dict[str, Any]", value))


def check_bare_name(name: str | None, taken: tuple[str, ...]) -> None:
    """Check that a name is that of a file inside of the folder, and none of `taken`.

    Raises:
        ValueError: if it is not.

    """
    if name is not None and (not name or file_name(name) != name or name.casefold() in taken):
        raise ValueError(f"expected the bare name of a file in the folder, got {name!r}")


def _hint(folder: Path, name: str) -> str:
    """Return what to do about a folder without a reproducer."""
    if folder.name == name and folder.is_file():
        return f"give the folder of this file, {str(folder.parent)!r}"
    # A parent folder of reproducers has a folder for each module, and in it one for each failure.
    found = [str(path.parent) for pattern in ("*", "*/*") for path in islice(_beneath(folder, pattern, name), 100)]
    if not found:
        return f"give a folder that has a {name}"
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"folders beneath it hold reproducers: {', '.join(map(repr, sorted(found)[:_LISTED]))}{more}"


def _beneath(folder: Path, pattern: str, name: str) -> Iterator[Path]:
    return (path for path in folder.glob(f"{pattern}/{name}") if path.is_file())


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key {key!r} is given twice")
        result[key] = value
    return result


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a value of JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {shorten(text)} is too large")
    return value


def shorten(text: object) -> str:
    """Return the start of a text from a file, as messages quote it."""
    shown = str(text)
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."
