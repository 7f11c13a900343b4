"""Tables of named rows that fit any width.

Columns are dropped in a fixed order. The names are shortened last.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich.cells import cell_len
from rich.text import Text

__all__ = ["Column", "fitted_table", "keep_end", "keep_ends", "keep_start"]

NAME_WIDTH: Final = 32
"""Width up to which names are not shortened while a column can be dropped."""

_GAP: Final = 3
"""Width of the space between two columns."""

_RULE: Final = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"
_ELLIPSIS: Final = "\N{HORIZONTAL ELLIPSIS}"


def keep_start(text: str, width: int) -> str:
    """Return the text, or its start with an ellipsis if it is wider than `width`.

    >>> keep_start("abcdef", 4)
    'abc…'
    """
    return text if cell_len(text) <= width else f"{_prefix(text, width - 1)}{_ELLIPSIS}"


def keep_end(text: str, width: int) -> str:
    """Return the text, or its end with an ellipsis if it is wider than `width`.

    >>> keep_end("abcdef", 4)
    '…def'
    """
    return text if cell_len(text) <= width else f"{_ELLIPSIS}{_prefix(text[::-1], width - 1)[::-1]}"


def keep_ends(text: str, width: int) -> str:
    """Return the text, or its start and end with an ellipsis between them.

    >>> keep_ends("abcdefgh", 5)
    'ab…gh'
    """
    if cell_len(text) <= width:
        return text
    start = _prefix(text, (width - 1) // 2)
    return f"{start}{_ELLIPSIS}{_prefix(text[::-1], width - 1 - cell_len(start))[::-1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column with its cells, which are plain text in one line."""

    title: str
    """The heading."""
    cells: Sequence[str]
    """The texts, one for each row."""
    smallest: int | None = None
    """Width to which cells may be shortened; None if they must not be shortened."""
    shorten: Callable[[str, int], str] = keep_start
    """Returns a text of at most a given width."""
    justify: Literal["left", "right"] = "left"
    """The side at which the cells are aligned."""
    style: Callable[[int], str] = lambda row: ""
    """Returns the style of the cell in a row."""

    @property
    def natural(self) -> int:
        """The width of the widest cell."""
        return max(map(cell_len, (self.title, *self.cells)))

    @property
    def needed(self) -> int:
        """The width below which the column is dropped."""
        return self.natural if self.smallest is None else min(max(self.smallest, cell_len(self.title)), self.natural)


def fitted_table(
    names: Column, others: Sequence[Column], width: int, *, drop: Iterable[str], padding: int | None = None
) -> Text:
    """Return a table whose lines have at most `width` cells.

    Parameters:
        names: the first column, which is never dropped.
        others: the other columns.
        width: the width of the terminal.
        drop: the titles of the columns to drop, in this order, until the others have their needed width and names
            have theirs, up to 32 cells.
        padding: the width up to which cells are padded, for a file or a pipe without a width; None if it is that of
            their column.

    """
    kept = list(others)
    wanted = min(names.natural, NAME_WIDTH)
    for title in drop:
        if wanted + _total(kept) <= width:
            break
        kept = [column for column in kept if column.title != title]
    # Two cells are the edges of the table.
    left = width - 2 - sum(_GAP + column.needed for column in kept)
    widths = {names.title: max(1, min(names.natural, left))}
    left -= widths[names.title]
    for column in reversed(kept):
        more = max(0, min(left, column.natural - column.needed))
        widths[column.title] = column.needed + more
        left -= more
    columns = [names, *kept]
    padded = {title: value if padding is None else min(value, padding) for title, value in widths.items()}
    lines = [Text(), _line([(column, column.title, "bold") for column in columns], widths, padded)]
    lines.append(Text(f" {_RULE * (sum(padded[column.title] + _GAP for column in columns) - _GAP)}"))
    lines += [
        _line([(column, column.cells[row], column.style(row)) for column in columns], widths, padded)
        for row in range(len(names.cells))
    ]
    # A table of rich takes milliseconds for each row.
    return Text("\n", no_wrap=True, overflow="ignore").join([*lines, Text()])


def _line(cells: Iterable[tuple[Column, str, str]], widths: Mapping[str, int], padded: Mapping[str, int]) -> Text:
    line = Text()
    for column, text, style in cells:
        shown = column.shorten(text, widths[column.title])
        space = " " * (padded[column.title] - cell_len(shown))
        line.append(" " * (_GAP if line else 1))
        line.append(f"{space}{shown}" if column.justify == "right" else f"{shown}{space}", style)
    return line


def _total(columns: Iterable[Column]) -> int:
    return 2 + sum(_GAP + column.needed for column in columns)


def _prefix(text: str, width: int) -> str:
    """Return the longest start of the text that has at most `width` cells."""
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[:index]
    return text
