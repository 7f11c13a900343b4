"""Text for terminals and logs, in which control characters are shown as escapes."""

import unicodedata
from typing import Final, TextIO

__all__ = ["LAYOUT", "for_file", "printable"]

LAYOUT: Final = "\n\t"
"""The control characters that lay out a text of several lines."""


def printable(text: str, keep: str = "") -> str:
    r"""Return `text` with an escape for each character that is not printable.

    A name could move the cursor, change the colors or the title of a terminal, forge a line of a log, or show text in
    another order. The escaped characters are those of the Unicode categories for controls, formats (which reverse the
    direction of text), surrogates, line separators, private use and unassigned codes. Each remains one line long.

    Parameters:
        text: the text.
        keep: characters that are not escaped.

    >>> print(printable("main\x1b[2J\n\u202e"))
    main\x1b[2J\n\u202e
    """
    if text.isprintable():
        return text
    return "".join(
        char if char in keep or _is_visible(char) else char.encode("unicode_escape").decode() for char in text
    )


def for_file(text: str, file: TextIO) -> str:
    """Return a text of several lines for `file`: escaped if it is a terminal."""
    return printable(text, LAYOUT) if file.isatty() else text


def _is_visible(char: str) -> bool:
    # `isprintable` is false for every space but U+0020.
    return char.isprintable() or unicodedata.category(char) == "Zs"
