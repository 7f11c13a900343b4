"""Unified diffs of two texts, optionally with ANSI colours."""

import os
from collections.abc import Iterable
from difflib import unified_diff
from itertools import takewhile
from typing import Final, TextIO

__all__ = ["diff_texts", "limit_lines", "paint_diff", "wants_color"]

_COLORS: Final = {"@": "36", "+": "32", "-": "31"}
"""ANSI colour codes by the first character of a line."""


def diff_texts(before: str, after: str, *, context: int = 3, heading: str = "") -> str:
    r"""Return a unified diff without file names, or "" if the texts are equal.

    `heading` follows the line numbers of each hunk.

    >>> print(diff_texts("a\nb\nc", "a\nx\nc"))
    @@ -1,3 +1,3 @@
     a
    -b
    +x
     c
    """
    if before == after:
        return ""
    old, new = before.splitlines(), after.splitlines()
    # difflib takes quadratic time, and most lines of two modules are equal: cut the common head and tail first.
    head = _common_prefix(old, new)
    tail = _common_prefix(reversed(old[head:]), reversed(new[head:]))
    start = max(head - context, 0)
    cut = max(tail - context, 0)
    hunks = list(unified_diff(old[start : len(old) - cut], new[start : len(new) - cut], n=context, lineterm=""))[2:]
    end = f" {heading}" if heading else ""
    return "\n".join(f"{_shift_header(line, start)}{end}" if line.startswith("@@") else line for line in hunks)


def limit_lines(text: str, limit: int | None) -> str:
    """Return the first `limit` lines of a text.

    If there are more, a last line gives the number of lines left out.
    """
    lines = [] if limit is None else text.split("\n")
    if limit is None or len(lines) <= limit:
        return text
    return "\n".join([*lines[:limit], f"... and {len(lines) - limit} more lines"])


def paint_diff(diff: str) -> str:
    """Return a diff with ANSI colours: removed lines in red, added lines in green."""
    return "\n".join(_paint_line(line) for line in diff.split("\n"))


def wants_color(file: TextIO) -> bool:
    """Return whether `file` is a terminal and the environment does not set `NO_COLOR`."""
    return file.isatty() and not os.environ.get("NO_COLOR")


def _paint_line(line: str) -> str:
    color = _COLORS.get(line[:1])
    return line if color is None else f"\x1b[{color}m{line}\x1b[0m"


def _common_prefix(before: Iterable[str], after: Iterable[str]) -> int:
    """Return the number of equal lines at the start of both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))


def _shift_header(header: str, by: int) -> str:
    """Return the header of a hunk with its line numbers increased by `by`."""
    _, old, new, _ = header.split(" ")
    return f"@@ {_shift_range(old, by)} {_shift_range(new, by)} @@"


def _shift_range(part: str, by: int) -> str:
    first, comma, count = part[1:].partition(",")
    return f"{part[0]}{int(first) + by}{comma}{count}"
