"""`retry_after`: the header of HTTP that says when to repeat a request."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

__all__ = ["retry_after"]


def retry_after(header: str | None) -> float | None:
    """Return the seconds of a `Retry-After` header, which may be a date.

    Return None if it has none.

    >>> retry_after("7"), retry_after("Sat, 01 Jan 2000 00:00:00 GMT"), retry_after("soon")
    (7.0, 0.0, None)
    """
    if header is None:
        return None
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        wait = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None
    return max(0.0, wait)
