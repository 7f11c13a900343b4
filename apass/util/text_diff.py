"""What changed between two texts, as a unified diff, coloured where wanted; for whatever shows what passes did."""

import os
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from typing import Final, TextIO

__all__ = ["diff_texts", "paint_diff", "wants_color"]

_COLORS: Final = {"@": "36", "+": "32", "-": "31"}
"""ANSI colours by the first character of a line."""


def diff_texts(before: str, after: str, *, context: int = 3, limit: int | None = None) -> str:
    r"""Return a unified diff without its file names, or "" if the texts are the same.

    Beyond `limit` lines, the rest is counted.

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
    # difflib's time grows with the square of what it is given, and most of two modules is the same.
    skipped = _common(old, new)
    tail = _common(reversed(old[skipped:]), reversed(new[skipped:]))
    start = max(skipped - context, 0)
    keep = max(tail - context, 0)
    lines = list(unified_diff(old[start : len(old) - keep], new[start : len(new) - keep], n=context, lineterm=""))[2:]
    moved = [_moved(line, start) if line.startswith("@@") else line for line in lines]
    if limit is not None and len(moved) > limit:
        moved = [*moved[:limit], f"... and {len(moved) - limit} more lines"]
    return "\n".join(moved)


def paint_diff(diff: str) -> str:
    """Return a diff with what went in red and what came in green, as a terminal shows it."""
    return "\n".join(_painted(line) for line in diff.split("\n"))


def wants_color(file: TextIO) -> bool:
    """Tell whether `file` is a terminal and the environment does not set `NO_COLOR`."""
    return file.isatty() and not os.environ.get("NO_COLOR")


def _painted(line: str) -> str:
    color = _COLORS.get(line[:1])
    return line if color is None else f"\x1b[{color}m{line}\x1b[0m"


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    """Return with how many equal lines both begin."""
    return sum(1 for _ in _while_equal(one, other))


def _while_equal(one: Iterable[str], other: Iterable[str]) -> Iterator[None]:
    for a, b in zip(one, other, strict=False):
        if a != b:
            return
        yield None


def _moved(head: str, by: int) -> str:
    """Return the head of a hunk with its line numbers moved on."""
    _, old, new, _ = head.split(" ")
    return f"@@ {_shift(old, by)} {_shift(new, by)} @@"


def _shift(part: str, by: int) -> str:
    first, comma, count = part[1:].partition(",")
    return f"{part[0]}{int(first) + by}{comma}{count}"
