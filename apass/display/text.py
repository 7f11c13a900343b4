"""Plain text of blocks, for terminals and for `print`."""

from collections.abc import Iterator
from typing import Final, assert_never

from apass.display.blocks import Bar, Block, Code, Fold, Group, Line, Page, Row, Table, Tree
from apass.util.printable import printable

__all__ = ["draw_bar", "render_text"]

_BAR_WIDTH: Final = 20
"""The width of a bar, in columns."""


def render_text(block: Block) -> str:
    """Return a block as lines of text, with escapes for control characters."""
    return "\n".join(_lines(block))


def draw_bar(bar: Bar) -> tuple[str, str]:
    """Return the two parts of a bar."""
    return "█" * round(bar.busy * _BAR_WIDTH), "░" * round(bar.waiting * _BAR_WIDTH)


def _lines(block: Block) -> Iterator[str]:
    match block:
        case tuple():
            yield _plain(block)
        case Code():
            yield from map(_plain, block.lines)
        case Tree():
            yield _plain(block.label)
            for child in block.children:
                yield from (f"  {line}" for line in _lines(child))
        case Table():
            yield from _table(block)
        case Fold():
            yield _plain(block.title)
            yield from (f"  {line}" for line in _lines(block.body))
        case Group():
            for inner in block.blocks:
                yield from _lines(inner)
        case Page():
            yield _plain(block.title)
        case _:
            assert_never(block)


def _table(table: Table) -> Iterator[str]:
    rows = [list(table.head), *(list(_cells(row)) for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    for row in rows:
        cells = (
            cell.rjust(width) if column < table.numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _cells(row: Row) -> Iterator[str]:
    last = row.label_column()
    for column, cell in enumerate(row.cells):
        indent = "  " * row.depth if column == last else ""
        yield "".join(draw_bar(cell)) if isinstance(cell, Bar) else indent + _plain(cell)


def _plain(line: Line) -> str:
    return printable("".join(span.text for span in line), "\t")
