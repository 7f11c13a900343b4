"""Texts of messages that quote values of any size, and counts."""

import traceback
from collections.abc import Sequence
from math import ceil
from pathlib import Path

__all__ = [
    "aligned_rows",
    "count_of",
    "excess_text",
    "raising_line",
    "short_reason",
    "shorten",
    "size_text",
    "text_of_error",
]


def shorten(text: str, limit: int = 300) -> str:
    """Return a text of at most `limit` characters, followed by dots if it was longer.

    >>> shorten("short"), len(shorten("long" * 1000))
    ('short', 303)
    """
    return text if len(text) <= limit else f"{text[:limit]}..."


def text_of_error(error: BaseException) -> str:
    """Return the text of an error, also if its `__str__` raises another one.

    >>> text_of_error(ValueError("no such pass"))
    'no such pass'
    """
    try:
        return str(error)
    except Exception as other:
        return f"(no text: its __str__ raised {type(other).__name__})"


def short_reason(error: BaseException, message: str | None = None, limit: int = 400) -> str:
    r"""Return the type and the message of an error as one line of limited length.

    An error without a message has the line of code that raised it instead.

    Parameters:
        error: the error.
        message: the part of its text that matters; None for all of it.
        limit: the maximum length of the message.

    >>> short_reason(ValueError("first\nsecond"))
    'ValueError: first second'
    """
    text = " ".join((text_of_error(error) if message is None else message)[: 2 * limit].split())
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text) or raising_line(error)
    return f"{type(error).__name__}: {shorten(text, limit)}".removesuffix(": ")


def raising_line(error: BaseException) -> str:
    """Return the line of code that raised an error, with its place.

    It says what an `assert` without a message expected. It is empty if no source is known.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.line]
    if not frames:
        return ""
    place = "/".join(Path(frames[-1].filename).parts[-3:])
    return f"{frames[-1].line} (line {frames[-1].lineno} of {place})"


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun, which is in the plural unless the number is 1.

    >>> count_of(1, "line"), count_of(2000, "line")
    ('1 line', '2,000 lines')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size_text(count: int) -> str:
    """Return a number of bytes as text.

    >>> size_text(4 * 2**30), size_text(1000), size_text(1536)
    ('4 GiB', '1000 bytes', '1.5 KiB')
    """
    factor, unit = _unit_of(count)
    return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"


def excess_text(count: int, limit: int) -> str:
    """Return a number of bytes and the limit that it exceeds, as text.

    >>> excess_text(3 * 2**30 + 1, 3 * 2**30)
    '3.1 of 3.0 GiB'
    """
    factor, unit = _unit_of(limit)
    return f"{ceil(10 * count / factor) / 10:.1f} of {limit / factor:.1f} {unit}"


def _unit_of(count: int) -> tuple[int, str]:
    """Return the bytes of the largest unit that a number of bytes fills, and its name."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min(max(count.bit_length() - 1, 0) // 10, len(units) - 1)
    return 1024**power, units[power]


def aligned_rows(rows: Sequence[Sequence[str]], numbers: int) -> str:
    """Return rows as lines: `numbers` right-aligned columns, then left-aligned text.

    >>> print(aligned_rows([("ms", "pass"), ("0.125", "Fuse")], numbers=1))
       ms  pass
    0.125  Fuse
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(text.rjust(width) if at < numbers else text.ljust(width) for at, (text, width) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    return "\n".join(line.rstrip() for line in lines)
