"""The blocks that a display is made of: lines, trees, tables, folds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from apass.util.text import count_of

__all__ = [
    "MAX_ROWS",
    "Bar",
    "Block",
    "Code",
    "Fold",
    "Group",
    "Line",
    "Page",
    "Row",
    "Span",
    "Style",
    "Table",
    "Tree",
    "limited",
]

MAX_ROWS: Final = 1_000
"""The number of rows that are shown of a table."""

Style = Literal[
    "plain", "name", "muted", "good", "bad", "warning", "note", "keyword", "string", "number", "variable", "comment"
]
"""The meaning of a text, from which a renderer chooses a colour."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line."""

    text: str
    """The text. It may come from anywhere: a renderer must escape it."""
    style: Style = "plain"
    """The meaning of the text."""


Line = tuple[Span, ...]
"""Parts of a line, which follow each other without a separator."""


@dataclass(frozen=True, slots=True)
class Code:
    """Lines of a text in a fixed-width font, with all their spaces."""

    lines: Sequence[Line]
    """The lines."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A line, and trees below it."""

    label: Line
    """The line."""
    children: "Sequence[Tree]" = ()
    """The trees below it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a table, in two parts."""

    busy: float
    """The share of the first part, from 0 to 1."""
    waiting: float
    """The share of the second part."""

    @classmethod
    def of(cls, busy: float, waiting: float, longest: float) -> Self:
        """Return a bar with two parts of the longest one."""
        return cls(*(min(1.0, max(0.0, part / longest)) if longest else 0.0 for part in (busy, waiting)))


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table."""

    cells: Sequence[Line | Bar]
    """The cells."""
    depth: int = 0
    """The indentation of the last cell that is a line."""

    def label_column(self) -> int:
        """Return the index of the last cell that is a line; -1 if there is none."""
        return max((column for column, cell in enumerate(self.cells) if isinstance(cell, tuple)), default=-1)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below a head."""

    head: Sequence[str]
    """The titles of the columns."""
    rows: Sequence[Row]
    """The rows."""
    numbers: int = 0
    """The number of columns, from the left, that are aligned to the right."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A block below a title, which a notebook can fold."""

    title: Line
    """The title."""
    body: "Block"
    """The block."""
    is_open: bool = True
    """Whether the block is unfolded at first."""


@dataclass(frozen=True, slots=True)
class Group:
    """Blocks below each other."""

    blocks: "Sequence[Block]"
    """The blocks."""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole HTML page, shown in a frame."""

    title: Line
    """A summary for terminals."""
    html: str
    """The page. It must be trusted: its scripts run in the frame."""


def limited(table: Table) -> "Block":
    """Return a table, with a line for the rows beyond the limit."""
    if len(table.rows) <= MAX_ROWS:
        return table
    more = (Span(f"... and {count_of(len(table.rows) - MAX_ROWS, 'more row')}", "muted"),)
    return Group([Table(table.head, table.rows[:MAX_ROWS], table.numbers), more])


Block = Line | Code | Tree | Table | Fold | Group | Page
"""What a display is made of. A line is a block, too."""
