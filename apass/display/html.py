"""HTML of blocks, for notebooks: self-contained, and readable in dark themes."""

from collections.abc import Iterator
from html import escape
from typing import Final, assert_never

from apass.display.blocks import Bar, Block, Code, Fold, Group, Line, Page, Row, Span, Style, Table, Tree
from apass.util.printable import printable

__all__ = ["COLORS", "render_html"]

COLORS: Final[dict[Style, str]] = {
    "good": "#2f9140",
    "bad": "#de4a42",
    "warning": "#bf6400",
    "note": "#0c8c9f",
    "keyword": "#a165c9",
    "string": "#2f9140",
    "number": "#bf6400",
    "variable": "#3b7dd8",
}
"""Colours of styles.

Their contrast to a white page is about that to a dark one, because the theme of a notebook is unknown to its outputs.
"""

_FONTS: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

_STYLE: Final = "".join(
    (
        ".apass{color:inherit;font-size:13px;line-height:1.5;overflow-x:auto;text-align:left}",
        f".apass pre,.apass .t,.apass td{{font-family:{_FONTS};font-size:12px;color:inherit}}",
        ".apass pre{background:none;border:0;margin:2px 0 6px;padding:0;white-space:pre;line-height:1.45}",
        ".apass summary{cursor:pointer}",
        ".apass .b{border-left:1px solid rgba(128,128,128,.35);margin:0 0 0 4px;padding:0 0 0 14px}",
        ".apass table{border:0;border-collapse:collapse;margin:4px 0}",
        ".apass th,.apass td{background:none;border:0;padding:1px 14px 1px 0;vertical-align:top}",
        # JupyterLab has a more specific rule, which aligns all cells to the right.
        ".apass th,.apass td{text-align:left!important}",
        ".apass th{border-bottom:1px solid rgba(128,128,128,.5);font-weight:600;white-space:nowrap}",
        ".apass tr{background:none!important}",
        ".apass .r{text-align:right!important;white-space:nowrap}",
        ".apass .bar{display:inline-flex;width:140px;height:9px;background:rgba(128,128,128,.2);border-radius:2px}",
        f".apass .bar i{{background:{COLORS['variable']};min-width:1px;border-radius:2px 0 0 2px}}",
        ".apass .bar i+i{opacity:.4;border-radius:0}",
        ".apass iframe{box-sizing:border-box;width:100%;height:640px}",
        ".apass iframe{border:1px solid rgba(128,128,128,.35);border-radius:4px}",
        ".apass .name{font-weight:600}",
        ".apass .muted,.apass .comment{opacity:.68}",
        ".apass .comment{font-style:italic}",
        *(f".apass .{style}{{color:{color}}}" for style, color in COLORS.items()),
    )
)


def render_html(block: Block) -> str:
    """Return a block as HTML, with all texts escaped."""
    return f'<div class="apass"><style>{_STYLE}</style>{"".join(_html(block))}</div>'


def _html(block: Block) -> Iterator[str]:
    match block:
        case tuple():
            yield f'<div class="t">{_line(block)}</div>'
        case Code():
            lines = "\n".join(map(_line, block.lines))
            # The newline is not part of the text: HTML ignores one at the start of a <pre>.
            yield f"<pre>\n{lines}</pre>"
        case Tree():
            yield from _tree(block)
        case Table():
            yield from _table(block)
        case Fold():
            # The body is indented, so that a title is easier to find in a long display.
            yield f'<details{" open" * block.is_open}><summary class="t">{_line(block.title)}</summary><div class="b">'
            yield from _html(block.body)
            yield "</div></details>"
        case Group():
            for inner in block.blocks:
                yield from _html(inner)
        case Page():
            # In a sandbox of its own origin, the page cannot reach the notebook.
            source, title = escape(block.html), escape(printable("".join(span.text for span in block.title)))
            yield f'<iframe sandbox="allow-scripts" title="{title}" srcdoc="{source}"></iframe>'
        case _:
            assert_never(block)


def _tree(tree: Tree) -> Iterator[str]:
    if not tree.children:
        yield f'<div class="t">{_line(tree.label)}</div>'
        return
    yield f'<details open><summary class="t">{_line(tree.label)}</summary><div class="b">'
    for child in tree.children:
        yield from _tree(child)
    yield "</div></details>"


def _table(table: Table) -> Iterator[str]:
    classes = [' class="r"' if column < table.numbers else "" for column in range(len(table.head))]
    yield "<table><thead><tr>"
    yield from (f"<th{kind}>{_text(title)}</th>" for title, kind in zip(table.head, classes, strict=True))
    yield "</tr></thead><tbody>"
    for row in table.rows:
        yield f"<tr>{''.join(_cells(row, classes))}</tr>"
    yield "</tbody></table>"


def _cells(row: Row, classes: list[str]) -> Iterator[str]:
    last = row.label_column()
    for column, (cell, kind) in enumerate(zip(row.cells, classes, strict=True)):
        indent = f' style="padding-left:{row.depth * 16}px"' if row.depth and column == last else ""
        yield f"<td{kind}{indent}>{_bar(cell) if isinstance(cell, Bar) else _line(cell)}</td>"


def _bar(bar: Bar) -> str:
    parts = "".join(f'<i style="width:{share:.2%}"></i>' for share in (bar.busy, bar.waiting))
    return f'<span class="bar">{parts}</span>'


def _line(line: Line) -> str:
    return "".join(map(_span, line))


def _span(span: Span) -> str:
    return _text(span.text) if span.style == "plain" else f'<span class="{span.style}">{_text(span.text)}</span>'


def _text(text: str) -> str:
    # Control characters could show a text in another order.
    return escape(printable(text, "\t"))
