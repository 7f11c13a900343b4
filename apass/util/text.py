"""Texts of messages that quote values of any size."""

from typing import Final

__all__ = ["shorten"]

_LONGEST: Final = 300
"""Maximum number of characters of a value that a message quotes."""


def shorten(text: str) -> str:
    """Return a text of at most 300 characters, followed by dots if it was longer.

    >>> shorten("short"), len(shorten("long" * 1000))
    ('short', 303)
    """
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
