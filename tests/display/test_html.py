"""HTML of displays: well-formed, escaped, and readable in dark notebooks."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import apass
from apass.display.blocks import Bar, Block, Code, Fold, Group, Page, Row, Span, Table, Tree
from apass.display.html import COLORS, render_html
from apass.display.text import render_text
from apass.util.printable import printable
from tests.helpers.html_pages import html_of, read_html

HOSTILE = "</pre></style><script>alert('x')</script><img src=x onerror=alert(1)>\" ' &amp; \x1b[2J\u202e"

spans = st.builds(Span, st.text() | st.just(HOSTILE), st.sampled_from(["plain", "name", "comment"]))
lines = st.lists(spans, max_size=3).map(tuple)
shares = st.floats(0, 1)
leaves = st.one_of(
    lines,
    st.builds(Code, st.lists(lines, max_size=3)),
    st.builds(Tree, lines, st.lists(st.builds(Tree, lines), max_size=2)),
    st.builds(Page, lines, st.text() | st.just(HOSTILE)),
    st.lists(st.tuples(lines, st.builds(Bar, shares, shares), lines), max_size=3).map(
        lambda cells: Table(["a", "bar", "label"], [Row(row, depth) for depth, row in enumerate(cells)], 1)
    ),
)
blocks: st.SearchStrategy[Block] = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Fold, lines, inner, st.booleans()), st.builds(Group, st.lists(inner, max_size=3))
    ),
    max_leaves=6,
)


@given(blocks)
@example((Span(HOSTILE),))
def test_every_display_is_wellformed_and_escaped(block: Block) -> None:
    read_html(render_html(block))


@given(st.text() | st.just(HOSTILE))
def test_texts_arrive_as_they_are(text: str) -> None:
    reader = read_html(render_html(Group([(Span(text, "name"),), Code([(Span(text),)]), Page((), text)])))
    shown = printable(text, "\t")
    # An HTML parser of a browser drops the newline that begins a <pre>.
    assert "".join(reader.texts) == f"{shown}\n{shown}"
    assert reader.frames == [text]


@given(blocks)
def test_plain_text_has_no_control_characters(block: Block) -> None:
    text = render_text(block)
    assert printable(text, "\n\t") == text


def test_display_is_this_html() -> None:
    tree = Tree((Span("outer", "name"),), [Tree((Span("<inner>"),))])
    table = Table(["n", "bar", "label"], [Row([(Span("1"),), Bar(0.5, 0.25), (Span("x", "muted"),)], 1)], 1)
    html = render_html(Fold((Span("title"),), Group([tree, table, Code([(Span("a"),), (Span("b"),)])]), False))
    assert re.sub(r"<style>.*?</style>", "", html) == (
        '<div class="apass"><details><summary class="t">title</summary><div class="b">'
        '<details open><summary class="t"><span class="name">outer</span></summary><div class="b">'
        '<div class="t">&lt;inner&gt;</div></div></details>'
        '<table><thead><tr><th class="r">n</th><th>bar</th><th>label</th></tr></thead><tbody><tr><td class="r">1</td>'
        '<td><span class="bar"><i style="width:50.00%"></i><i style="width:25.00%"></i></span></td>'
        '<td style="padding-left:16px"><span class="muted">x</span></td></tr></tbody></table>'
        "<pre>\na\nb</pre></div></details></div>"
    )


def test_names_of_passes_cannot_inject_scripts() -> None:
    hostile: apass.Pass[object] = apass.module_pass(lambda mod, ctx: mod, 0, HOSTILE, [HOSTILE])
    displays: list[object] = [
        apass.Sequential([hostile], name=HOSTILE),
        apass.view({HOSTILE: HOSTILE, "f": [HOSTILE] * 100}),
        apass.diff({HOSTILE: HOSTILE}, {}),
        apass.batch.Outcome(HOSTILE, None, ValueError(HOSTILE), 1.0),
        apass.Diagnostic.error(HOSTILE, apass.Span(HOSTILE, 1, 1, 1, 2)),
        apass.PassContext(disabled_pass=[HOSTILE], diag_ctx=apass.DiagnosticContext({HOSTILE: HOSTILE})),
        apass.view([apass.Remark.passed(HOSTILE, HOSTILE)]),
    ]
    for shown in displays:
        reader = read_html(html_of(shown))
        assert "<script>" in "".join(reader.texts)


@pytest.mark.parametrize("page", ["#ffffff", "#1e1e1e", "#111111"])
def test_colors_are_readable_on_light_and_dark(page: str) -> None:
    contrasts = {style: contrast(color, page) for style, color in COLORS.items()}
    assert {style: value for style, value in contrasts.items() if value < 3.9} == {}


def contrast(color: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG defines it."""
    (low, high), *_ = pairwise(sorted(map(luminance, (color, other))))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
