"""Excerpts of diagnostics: the lines of a span and the marks below them, to the last column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from apass.core.diagnostics import Diagnostic, DiagnosticContext, Span
from tests.helpers.diagnostics import ERROR, LAW, PROGRAM, golden, shown

WIDE = "%名前 = 🚀(x)"
MARKED = "cafe\u0301\u0323s"
LONG = f"<{'a' * 299}!{'b' * 300}>"


@pytest.mark.parametrize(
    ("text", "places", "line", "mark"),
    [
        ("let %x = 1;", (1, 5, 1, 7), "let %x = 1;", "    ^^"),
        ("abc\ndef", (2, 3, 2, 4), "def", "  ^"),
        # empty, or it ends before it starts
        ("abc", (1, 2, 1, 2), "abc", " ^"),
        ("abc", (1, 3, 1, 1), "abc", "  ^"),
        ("abc", (1, 3, -7, 9), "abc", "  ^"),
        # outside of its line
        ("abc", (1, 4, 1, 4), "abc", "   ^"),
        ("abc", (1, 4, 1, 99), "abc", "   ^"),
        ("abc", (1, 98, 1, 99), "abc", "   ^"),
        ("abc", (1, 0, 1, 3), "abc", "^^"),
        ("abc", (1, -9, 1, -5), "abc", "^"),
        ("abc", (1, 2, 9, 9), "abc", " ^^"),
        # with the newline
        ("abc\ndef", (1, 2, 2, 1), "abc", " ^^"),
        ("abc\ndef", (1, 2, 2, -1), "abc", " ^^"),
        # the end of the input
        ("abc\n", (2, 1, 2, 1), "", "^"),
        ("", (1, 1, 1, 1), "", "^"),
        # what ends a line
        ("ab\r\ncd\r\n", (2, 1, 2, 9), "cd", "^^"),
        ("a\x0bb\x0cc\u2028d\x85e\n!", (1, 9, 1, 10), "a␋b␌c\ufffdd\ufffde", "        ^"),
        # tabs, wide characters, combining marks
        ("\ta\tb", (1, 4, 1, 5), "    a    b", "         ^"),
        ("\ta\tb", (1, 2, 1, 4), "    a    b", "    ^^^^^"),
        (WIDE, (1, 2, 1, 4), WIDE, " ^^^^"),
        (WIDE, (1, 9, 1, 10), WIDE, "           ^"),
        (MARKED, (1, 4, 1, 5), MARKED, "   ^"),
        (MARKED, (1, 6, 1, 7), MARKED, "   ^"),
        (MARKED, (1, 4, 1, 8), MARKED, "   ^^"),
        (MARKED, (1, 7, 1, 8), MARKED, "    ^"),
        ("\u0301ab", (1, 1, 1, 2), "\u0301ab", "^"),
        ("\u0301ab", (1, 2, 1, 3), "\u0301ab", "^"),
        ("\u1112\u1161\u11ab!", (1, 4, 1, 5), "\u1112\u1161\u11ab!", "  ^"),
        ("a\u200db\u20dd\u00ad!", (1, 6, 1, 7), "a\u200db\u20dd\u00ad!", "   ^"),
        # a long line is shown around the span
        (LONG, (1, 301, 1, 302), f"...{'a' * 60}!{'b' * 139}...", " " * 63 + "^"),
        (LONG, (1, 1, 1, 603), f"<{'a' * 199}...", "^" * 200),
        (LONG, (1, 602, 1, 603), f"...{'b' * 199}>", " " * 202 + "^"),
        ("a" * 200, (1, 200, 1, 201), "a" * 200, " " * 199 + "^"),
    ],
)
def test_a_span_within_a_line_is_underlined(text: str, places: tuple[int, ...], line: str, mark: str) -> None:
    number, column, *_ = places
    expected = f"warning: here\n --> m:{number}:{column}\n  |\n{number} | {line}".rstrip() + f"\n  | {mark}"
    assert shown(text, *places) == expected


@pytest.mark.parametrize("line", [-3, 0, 4, 10**30])
def test_a_span_that_starts_outside_of_the_lines_is_named_without_an_excerpt(line: int) -> None:
    assert shown("a\nb\nc", line, 1, line, 2) == f"warning: here\n --> m:{line}:1"


def test_what_would_upset_a_terminal_is_shown_as_a_sign() -> None:
    diag_ctx = DiagnosticContext({"m\x1b\n": "a\x1b[31m\u202eb\x7f\ud800\x00c"})
    diag_ctx.emit(Diagnostic(ERROR, "bell\a \x1b[2J", Span("m\x1b\n", 1, 11, 1, 12), "P\n", "f\t!", "\udfff"))
    assert diag_ctx.rendered() == golden("""
        error: bell␇ ␛[2J
         --> m␛␊:1:11
          |
        1 | a␛[31m\ufffdb\ufffd\ufffd␀c
          |           ^
          |
          = in pass P␊, function f    !, module \ufffd
    """)


def test_a_span_over_lines_is_drawn_from_its_start_to_its_end() -> None:
    assert shown(PROGRAM, 1, 15, 4, 2) == golden("""
        warning: here
         --> m:1:15
          |
        1 |   def @main(%x) {
          |  _______________^
        2 | |   let %y = add(%x);
        3 | |   %y
        4 | | }
          | |_^
    """)


def test_a_span_that_ends_beyond_the_text_ends_with_it() -> None:
    assert shown("ab\ncd", 1, 2, 99, 1) == shown("ab\ncd\n", 1, 2, 99, 99)
    assert shown("ab\ncd", 1, 2, 99, 1) == golden("""
        warning: here
         --> m:1:2
          |
        1 |   ab
          |  __^
        2 | | cd
          | |__^
    """)


def test_a_span_over_lines_with_tabs_and_wide_characters_keeps_its_columns() -> None:
    assert shown("\t名(\n\n\t 前)", 1, 2, 3, 4) == golden("""
        warning: here
         --> m:1:2
          |
        1 |       名(
          |  _____^^
        2 | |
        3 | |      前)
          | |______^^
    """)


def test_dots_stand_for_the_middle_of_a_long_span() -> None:
    rows = [f"line {number}" for number in range(1, 21)]
    assert shown("\n".join(rows), 3, 1, 10, 3) == golden("""
        warning: here
          --> m:3:1
           |
         3 |   line 3
           |  _^
         4 | | line 4
         5 | | line 5
         6 | | line 6
        ...  |
         9 | | line 9
        10 | | line 10
           | |__^
    """)
    inner = "\n".join(f" {number} | | line {number}" for number in range(5, 10))
    assert shown("\n".join(rows), 4, 1, 10, 3).endswith(f"\n{inner}\n10 | | line 10\n   | |__^")


CHARACTERS = "ab z{%@\té\u07c0ßжאع한名前カ🚀\uff21…—"


def expanded(text: str) -> str:
    return text.replace("\t", "    ")


@LAW
@given(st.text(CHARACTERS), st.text(CHARACTERS, min_size=1), st.text(CHARACTERS))
def test_the_carets_are_under_the_characters_of_the_span(before: str, inside: str, after: str) -> None:
    start, end = len(before) + 1, len(before) + len(inside) + 1
    *_, line, mark = shown(f"first\n{before}{inside}{after}\nlast", 2, start, 2, end).split("\n")
    assert line == f"2 | {expanded(before + inside + after)}".rstrip()
    assert mark == f"  | {' ' * cell_len(expanded(before))}{'^' * cell_len(expanded(inside))}"


@LAW
@given(st.text(CHARACTERS + "\n", max_size=40), st.text(CHARACTERS + "\n", max_size=40))
def test_a_span_over_lines_is_drawn_from_its_first_character_to_its_last(before: str, inside: str) -> None:
    opening, number = before.rpartition("\n")[2], before.count("\n") + 1
    last = number + inside.count("\n") + 1
    rows = shown(f"{before}({inside}\n\t名)\nlast", number, len(opening) + 1, last, 4).split("\n")[2:]
    blank = " " * len(str(last))
    line = expanded(f"{opening}({inside.partition(chr(10))[0]}").rstrip()
    underline = "_" * (cell_len(expanded(opening)) + 1)
    assert rows[:3] == [f"{blank} |", f"{number:>{len(blank)}} |   {line}", f"{blank} |  {underline}^"]
    assert rows[-2:] == [f"{last} | |     名)", f"{blank} | |_______^"]
    assert len(rows) == 4 + min(last - number, 6)
