"""Sizes and durations of options: `4GiB`, `90s`, `7d`."""

import re
from collections.abc import Mapping
from typing import Final

from apass.errors import InputError

__all__ = ["NONE", "bytes_of", "duration_of"]

NONE: Final = "none"
"""The value of an option for no limit."""

_BYTES: Final[Mapping[str, int]] = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SECONDS: Final[Mapping[str, float]] = {"": 1, "ms": 1e-3, "s": 1, "m": 60, "h": 3600, "d": 86400}

_QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE | re.ASCII)


def bytes_of(option: str, text: str) -> int | None:
    """Return a number of bytes; None for no limit.

    Raises:
        InputError: if the text is not one.

    """
    amount = _amount(text, _BYTES)
    if amount is None and text.lower() != NONE:
        raise InputError(f"{option} must be a size such as 4GiB, 500MB or {NONE}, got {text!r}")
    return None if amount is None else max(1, round(amount))


def duration_of(option: str, text: str) -> float | None:
    """Return a number of seconds; None for no limit.

    Raises:
        InputError: if the text is not one.

    """
    amount = _amount(text, _SECONDS)
    if amount is None and text.lower() != NONE:
        raise InputError(f"{option} must be a duration such as 90s, 12h, 7d or {NONE}, got {text!r}")
    return amount


def _amount(text: str, units: Mapping[str, float]) -> float | None:
    """Return a positive amount in the smallest unit; None if the text is not one."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        return None
    amount = float(match[1]) * units[match[2].lower()]
    return amount if 0 < amount < float("inf") else None
