"""`Parameters`: the parameters of a request, from its query and its form."""

import json
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any, Final, cast

from apass.errors import did_you_mean
from apass.service.http.problems import InvalidParameterError

__all__ = ["Parameters"]

LONGEST: Final = 1 << 16
"""Characters of one value."""

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


class Parameters:
    """The parameters of a request.

    Every method raises InvalidParameterError if a value is invalid.

    Parameters:
        items: names and values.
        known: the names that are allowed.

    """

    def __init__(self, items: Iterable[tuple[str, str]], known: Sequence[str]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in items:
            if name not in known:
                near = did_you_mean(name, known, listing="parameters are ", lister="/v1/openapi.json")
                near = near if known else "; this path has none"
                raise InvalidParameterError(f"there is no parameter {name[:100]!r}{near}")
            if len(value) > LONGEST:
                raise InvalidParameterError(f"{name} has {len(value):,} characters; the limit is {LONGEST:,}")
            # No database stores a null character in a text.
            if "\x00" in value:
                raise InvalidParameterError(f"{name} must not contain a null character")
            self._values.setdefault(name, []).append(value)

    def text(self, name: str) -> str | None:
        """Return a value; None if it is missing."""
        values = self._values.get(name, [])
        if len(values) > 1:
            raise InvalidParameterError(f"{name} is given {len(values)} times; expected one value")
        return values[0] if values else None

    def words(self, name: str) -> tuple[str, ...]:
        """Return a list, of which each value may contain several elements between commas."""
        words = (word.strip() for value in self._values.get(name, []) for word in value.split(","))
        return tuple(word for word in words if word)

    def integer(self, name: str, default: int, least: int, most: int) -> int:
        """Return an integer within bounds."""
        text = self.text(name)
        if text is None:
            return default
        # `int` accepts spaces, underscores and digits of other scripts.
        is_number = text.removeprefix("-").isascii() and text.removeprefix("-").isdecimal() and len(text) < 30
        if not is_number or not least <= int(text) <= most:
            raise InvalidParameterError(f"{name} must be an integer from {least} to {most}, got {text[:100]!r}")
        return int(text)

    def seconds(self, name: str, *, allows_zero: bool = True) -> float | None:
        """Return a number of seconds that is not negative; None if it is missing."""
        text = self.text(name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not isfinite(value) or value < 0 or (value == 0 and not allows_zero):
            kind = "number of seconds, 0 or more" if allows_zero else "positive number of seconds"
            raise InvalidParameterError(f"{name} must be a {kind}, got {text[:100]!r}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether a flag is set."""
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in _FLAGS:
            raise InvalidParameterError(f"{name} must be true or false, got {text[:100]!r}")
        return _FLAGS[text.lower()]

    def mapping(self, name: str) -> dict[str, Any]:
        """Return an object of JSON; empty if it is missing."""
        text = self.text(name)
        if text is None:
            return {}
        try:
            value: Any = json.loads(text, parse_constant=_reject)
        except (ValueError, RecursionError) as error:
            raise InvalidParameterError(f"{name} must be an object of JSON: {error}") from error
        if not isinstance(value, dict):
            raise InvalidParameterError(f"{name} must be an object of JSON, got {text[:100]!r}")
        return cast("dict[str, Any]", value)


def _reject(constant: str) -> None:
    raise ValueError(f"{constant} is no value of JSON")
