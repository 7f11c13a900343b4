"""Renderables of rich, for terminals with colour."""

from typing import Final, assert_never

from rich.console import Group as RichGroup
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree as RichTree

from apass.display.blocks import Bar, Block, Code, Fold, Group, Line, Page, Style, Table, Tree
from apass.display.text import draw_bar
from apass.util.printable import printable

__all__ = ["render_rich"]

_STYLES: Final[dict[Style, str]] = {
    "name": "bold",
    "muted": "dim",
    "good": "green",
    "bad": "red",
    "warning": "yellow",
    "note": "cyan",
    "keyword": "magenta",
    "string": "green",
    "number": "yellow",
    "variable": "blue",
    "comment": "dim italic",
}


def render_rich(block: Block) -> RenderableType:
    """Return a block as a renderable of rich."""
    match block:
        case tuple():
            return _text(block)
        case Code():
            return Text("\n").join(map(_text, block.lines))
        case Tree():
            return _tree(block)
        case Table():
            return _table(block)
        case Fold():
            return RichGroup(_text(block.title), Padding(render_rich(block.body), (0, 0, 0, 2)))
        case Group():
            return RichGroup(*map(render_rich, block.blocks))
        case Page():
            return _text(block.title)
        case _:
            assert_never(block)


def _tree(tree: Tree) -> RichTree:
    result = RichTree(_text(tree.label), guide_style="dim")
    result.children += map(_tree, tree.children)
    return result


def _table(table: Table) -> RichTable:
    result = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column, title in enumerate(table.head):
        result.add_column(title, justify="right" if column < table.numbers else "left")
    for row in table.rows:
        last = row.label_column()
        result.add_row(
            *(
                _bar(cell) if isinstance(cell, Bar) else Padding(_text(cell), (0, 0, 0, 2 * row.depth * (at == last)))
                for at, cell in enumerate(row.cells)
            )
        )
    return result


def _bar(bar: Bar) -> Text:
    return Text.assemble(*((part, "blue") for part in draw_bar(bar)))


def _text(line: Line) -> Text:
    # `Text` does not read markup, and control characters must not reach the terminal.
    return Text.assemble(*((printable(span.text, "\t"), _STYLES.get(span.style, "")) for span in line))
