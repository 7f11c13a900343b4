"""Tables of results and of running passes, at any width of the terminal."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from apass.instruments.support.table_layout import Column, fitted_table, keep_end, keep_ends, keep_start
from apass.util.printable import printable

LONG = "models/vision/classification/resnet50-v1-12-qdq-int8.onnx"
WIDE = "\N{CJK UNIFIED IDEOGRAPH-6A21}\N{CJK UNIFIED IDEOGRAPH-578B}" * 20
SHORT = "m.onnx"


def lines(names: list[str], width: int) -> list[str]:
    """Return the lines of a table of results with these names."""
    count = len(names)
    columns = [
        Column(title="before", cells=["1234"] * count, justify="right"),
        Column(title="after", cells=["12"] * count, justify="right"),
        Column(title="seconds", cells=["0.123"] * count, justify="right"),
        Column(title="result", cells=["ok outputs equal"] * count, smallest=2),
    ]
    model = Column(title="model", cells=names, shorten=keep_ends)
    table = fitted_table(model, columns, width, drop=("seconds", "before", "after", "result"))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return [line for line in capture.get().splitlines() if line.strip()]


def titles(width: int, name: str = SHORT) -> list[str]:
    """Return the titles of the columns at a width."""
    return lines([name], width)[0].split()


def test_names_are_shown_at_any_width() -> None:
    for width in range(20, 201):
        shown = lines([LONG, WIDE, SHORT], width)
        assert max(map(cell_len, shown)) <= width
        assert SHORT in shown[-1], width
        rows = [line.strip() for line in shown[2:]]
        long, wide = (next(row for row in rows if row.startswith(name[:4])) for name in (LONG, WIDE))
        assert long.split()[0].endswith("onnx"), width
        assert wide.split()[0].endswith(WIDE[-4:]), width
        assert cell_len(long.split()[0]) >= 32 or width < 40


def test_columns_are_dropped_in_order() -> None:
    assert titles(60) == ["model", "before", "after", "seconds", "result"]
    steps = [titles(width) for width in range(60, 19, -1)]
    assert list(dict.fromkeys(map(tuple, steps))) == [
        ("model", "before", "after", "seconds", "result"),
        ("model", "before", "after", "result"),
        ("model", "after", "result"),
        ("model", "result"),
    ]
    assert titles(40, LONG) == ["model"]


def test_names_up_to_limit_are_whole_before_columns() -> None:
    name = "n" * 32
    assert [line.split()[0] for line in lines([name], 40)[-1:]] == [name]
    assert name in "".join(lines([name], 80))


def test_other_cells_are_shortened_before_columns_are_dropped() -> None:
    assert lines([SHORT], 60)[-1].rstrip().endswith("ok outputs equal")
    line = lines(["n" * 20], 60)[-1].rstrip()
    assert "0.123" in line
    assert line.endswith("\N{HORIZONTAL ELLIPSIS}")


@given(st.text(), st.integers(1, 50))
def test_shortened_text_fits(text: str, width: int) -> None:
    text = printable(text)
    for shorten in (keep_start, keep_end, keep_ends):
        result = shorten(text, width)
        assert cell_len(result) <= width
        assert (result == text) == (cell_len(text) <= width)
