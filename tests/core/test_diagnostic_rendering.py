"""Diagnostics as text: grouping, colour, files and excerpts of sources."""

import io
import os
import pty
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from apass.core.diagnostic_context import DiagnosticContext
from apass.core.diagnostics import Diagnostic, Span
from apass.errors import DiagnosticError
from tests.helpers.diagnostics import ERROR, HELP, LAW, LEVELS, NOTE, PROGRAM, WARNING, at, golden, rendered_warning

ANSI = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(autouse=True)
def enable_color(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset `NO_COLOR`, which the environment of the tests may define."""
    monkeypatch.delenv("NO_COLOR", raising=False)


# Groups of diagnostics.


def test_notes_and_helps_follow_their_error() -> None:
    diag_ctx = DiagnosticContext({"m": PROGRAM})
    diag_ctx.note("of nothing")
    diag_ctx.error("`%z` is not bound", at(3, 3, 3, 5))
    diag_ctx.note("`%y` is bound here", at(2, 7, 2, 9))
    diag_ctx.help("did you mean `%y`?")
    diag_ctx.warning("`%x` is not used")
    diag_ctx.note("it is a parameter")
    assert diag_ctx.rendered() == golden("""
        note: of nothing

        error: `%z` is not bound
         --> m:3:3
          |
        3 |   %y
          |   ^^
        note: `%y` is bound here
         --> m:2:7
          |
        2 |   let %y = add(%x);
          |       ^^
        help: did you mean `%y`?

        warning: `%x` is not used
        note: it is a parameter
    """)


def test_notes_are_grouped_by_pass_and_function() -> None:
    diag_ctx = DiagnosticContext()
    emitted = ((ERROR, "a failed", "a"), (WARNING, "b is odd", "b"), (NOTE, "why a", "a"), (HELP, "for b", "b"))
    for level, message, function in emitted:
        diag_ctx.emit(Diagnostic(level, message, pass_name="Fold", function=function))
    diag_ctx.note("about the latest, which is b")
    diag_ctx.emit(Diagnostic(NOTE, "of a pass without an error", pass_name="Inline"))
    assert diag_ctx.rendered() == golden("""
        error: a failed
          = in pass Fold, function a
        note: why a
          = in pass Fold, function a

        warning: b is odd
          = in pass Fold, function b
        help: for b
          = in pass Fold, function b
        note: about the latest, which is b

        note: of a pass without an error
          = in pass Inline
    """)


def test_origin_is_named_below_excerpt() -> None:
    diag_ctx = DiagnosticContext({"m": "\n" * 9 + "%y"})
    diag_ctx.emit(Diagnostic(ERROR, "bad", at(10, 1, 10, 3), "FoldConstant", "main", "resnet"))
    diag_ctx.emit(Diagnostic(ERROR, "bad", Span("unknown", 7, 7, 1, 3), None, "main", None))
    assert diag_ctx.rendered() == golden("""
        error: bad
         --> unknown:7:1
          = in function main

        error: bad
          --> m:10:1
           |
        10 | %y
           | ^^
           |
           = in pass FoldConstant, function main, module resnet
    """)


def test_text_is_independent_of_concurrent_order() -> None:
    emitted = [
        Diagnostic(WARNING, f"{module} {pass_name} {function} {number}", None, pass_name, function, module)
        for module in ("a", "b")
        for pass_name in ("Second", "First")  # in the order in which they run
        for function in ("f", "g")
        for number in (1, 2)
    ]
    expected = [f"{diagnostic.message}" for diagnostic in emitted]
    for order in permutations(range(4)):
        diag_ctx = DiagnosticContext()
        # The bodies of the functions of both modules interleave, one pass after the other.
        for start in (0, 4):
            for index in order:
                for diagnostic in emitted[start + index // 2 * 8 + index % 2 * 2 :][:2]:
                    diag_ctx.emit(diagnostic)
        lines = diag_ctx.rendered().splitlines()
        assert [line.removeprefix("warning: ") for line in lines if line.startswith("warning")] == expected


def test_diagnostics_without_module_come_first() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.emit(Diagnostic(WARNING, "third", None, "P", None, "m"))
    diag_ctx.warning("first")
    diag_ctx.warning("second")
    assert [line.partition(" ")[2] for line in diag_ctx.rendered().splitlines() if line.startswith("warning")] == [
        "first",
        "second",
        "third",
    ]


def test_multiline_message_is_indented_below_label() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("one\r\n  two\n\nthree \n\n")
    diag_ctx.help("")
    assert diag_ctx.rendered() == "warning: one\n           two\n\n         three\nhelp:"


def test_sources_can_change_later_and_oldest_is_dropped() -> None:
    diag_ctx = DiagnosticContext({"a": "aa", "b": "bb"}, source_limit=2)
    for name in "abc":
        diag_ctx.warning(name, Span(name, 1, 1, 1, 2))
    diag_ctx.add_source("a", "AA")
    diag_ctx.add_source("c", "cc")
    excerpts = ("\n  |\n1 | AA\n  | ^", "", "\n  |\n1 | cc\n  | ^")
    groups = [f"warning: {name}\n --> {name}:1:1{excerpt}" for name, excerpt in zip("abc", excerpts, strict=True)]
    assert diag_ctx.rendered() == "\n\n".join(groups)


# Colour, and the file to write to.


def test_color_marks_level_message_gutter_and_caret() -> None:
    diag_ctx = DiagnosticContext({"m": "abc"})
    diag_ctx.error("e", at(1, 2, 1, 4))
    for emit in (diag_ctx.warning, diag_ctx.note, diag_ctx.help):
        emit("m")
    blue, bold, off = "\x1b[1;34m", "\x1b[1m", "\x1b[0m"
    error = f"\x1b[1;31merror:{off} {bold}e{off}\n {blue}-->{off} m:1:2\n{blue}  |{off}\n{blue}1 |{off} abc\n"
    mark = f"{blue}  |{off}  \x1b[1;31m^^{off}"
    labels = ("\x1b[1;33mwarning:", "\x1b[1;32mnote:", "\x1b[1;36mhelp:")
    assert diag_ctx.rendered(color=True) == f"{error}{mark}\n\n" + "\n".join(
        f"{label}{off} {bold}m{off}" for label in labels
    )


@pytest.fixture
def terminal() -> Iterator[tuple[io.TextIOWrapper, io.TextIOWrapper]]:
    """Return a pseudo-terminal: the file to write to, and the file to read."""
    reader, writer = pty.openpty()
    # The kernel may pass on a line in several parts.
    with os.fdopen(writer, "w", encoding="utf-8") as file, os.fdopen(reader, encoding="utf-8") as output:
        yield file, output


@pytest.mark.parametrize(
    ("no_color", "color", "coloured"),
    [("", None, True), ("1", None, False), ("", False, False), ("1", True, True)],
)
def test_terminal_gets_color_unless_disabled(
    terminal: tuple[io.TextIOWrapper, io.TextIOWrapper],
    monkeypatch: pytest.MonkeyPatch,
    no_color: str,
    color: bool | None,
    coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    file, output = terminal
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("w")
    expected = diag_ctx.rendered(color=coloured)
    assert diag_ctx.render(file=file, color=color) == expected
    file.flush()
    assert output.readline() == expected + "\n"


def test_other_files_get_plain_text() -> None:
    diag_ctx, file = DiagnosticContext(), io.StringIO()
    diag_ctx.warning("w")
    assert (diag_ctx.render(file=file), file.getvalue()) == ("warning: w", "warning: w\n")


def test_unencodable_characters_are_escaped() -> None:
    data = io.BytesIO()
    file = io.TextIOWrapper(data, encoding="ascii", newline="\n", write_through=True)
    diag_ctx = DiagnosticContext({"m": "%名"})
    diag_ctx.warning("é", at(1, 2, 1, 3))
    assert diag_ctx.render(file=file) == "warning: é\n --> m:1:2\n  |\n1 | %名\n  |  ^^"
    assert data.getvalue() == b"warning: \\xe9\n --> m:1:2\n  |\n1 | %\\u540d\n  |  ^^\n"


def test_write_error_carries_text_as_note(tmp_path: Path) -> None:
    path = tmp_path / "read_only.txt"
    path.touch()
    diag_ctx = DiagnosticContext()
    diag_ctx.error("wrong")
    with path.open(encoding="utf-8") as file, pytest.raises(io.UnsupportedOperation) as caught:
        diag_ctx.render(file=file)
    assert caught.value.__notes__ == ["these diagnostics could not be written:\nerror: wrong"]


def test_render_to_closed_file_clears_nothing() -> None:
    diag_ctx, file = DiagnosticContext(), io.StringIO()
    file.close()
    diag_ctx.error("wrong")
    with pytest.raises(ValueError, match="closed file"):
        diag_ctx.render(file=file)
    assert diag_ctx.diagnostics == (Diagnostic.error("wrong"),)


ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\n\r\t \x1b\u0301\u202e名🚀"), max_size=60)
INTEGERS = st.integers(-2, 12) | st.integers()
SPANS = st.builds(Span, st.just("m") | ANY_TEXT, INTEGERS, INTEGERS, INTEGERS, INTEGERS)

NAMES = st.none() | ANY_TEXT
DIAGNOSTICS = st.builds(Diagnostic, LEVELS, ANY_TEXT, st.none() | SPANS, NAMES, NAMES, NAMES)


@LAW
@given(ANY_TEXT, st.lists(DIAGNOSTICS, max_size=5))
def test_any_diagnostic_in_any_text_can_be_rendered(text: str, emitted: Sequence[Diagnostic]) -> None:
    diag_ctx = DiagnosticContext({"m": text})
    for diagnostic in emitted:
        diag_ctx.emit(diagnostic)
    plain = diag_ctx.rendered()
    assert ANSI.sub("", diag_ctx.rendered(color=True)) == plain
    assert all(unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"} for char in plain if char != "\n")
    assert diag_ctx.diagnostics == tuple(emitted)
    if any(diagnostic.level is ERROR for diagnostic in emitted):
        with pytest.raises(DiagnosticError, match=f"^{re.escape(plain)}\\Z"):
            diag_ctx.render()
    else:
        assert diag_ctx.render() == plain
    assert diag_ctx.diagnostics == ()


WIDE = "%名前 = 🚀(x)"
MARKED = "cafe\u0301\u0323s"
LONG = f"<{'a' * 299}!{'b' * 300}>"


@pytest.mark.parametrize(
    ("text", "positions", "line", "mark"),
    [
        ("let %x = 1;", (1, 5, 1, 7), "let %x = 1;", "    ^^"),
        ("abc\ndef", (2, 3, 2, 4), "def", "  ^"),
        # empty spans, and spans that end before they start
        ("abc", (1, 2, 1, 2), "abc", " ^"),
        ("abc", (1, 3, 1, 1), "abc", "  ^"),
        ("abc", (1, 3, -7, 9), "abc", "  ^"),
        # spans outside of their line
        ("abc", (1, 4, 1, 4), "abc", "   ^"),
        ("abc", (1, 4, 1, 99), "abc", "   ^"),
        ("abc", (1, 98, 1, 99), "abc", "   ^"),
        ("abc", (1, 0, 1, 3), "abc", "^^"),
        ("abc", (1, -9, 1, -5), "abc", "^"),
        ("abc", (1, 2, 9, 9), "abc", " ^^"),
        # spans that include the newline
        ("abc\ndef", (1, 2, 2, 1), "abc", " ^^"),
        ("abc\ndef", (1, 2, 2, -1), "abc", " ^^"),
        # the end of the input
        ("abc\n", (2, 1, 2, 1), "", "^"),
        ("", (1, 1, 1, 1), "", "^"),
        # line endings
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
def test_span_within_line_is_underlined(text: str, positions: tuple[int, ...], line: str, mark: str) -> None:
    line_number, column, *_ = positions
    expected = f"warning: here\n --> m:{line_number}:{column}\n  |\n{line_number} | {line}".rstrip() + f"\n  | {mark}"
    assert rendered_warning(text, *positions) == expected


@pytest.mark.parametrize("line", [-3, 0, 4, 10**30])
def test_span_outside_source_has_no_excerpt(line: int) -> None:
    assert rendered_warning("a\nb\nc", line, 1, line, 2) == f"warning: here\n --> m:{line}:1"


def test_control_characters_are_replaced_by_symbols() -> None:
    diag_ctx = DiagnosticContext({"m\x1b\n": "a\x1b[31m\u202eb\x7f\ud800\x00c"})
    diag_ctx.emit(Diagnostic(ERROR, "bell\a \x1b[2J", Span("m\x1b\n", 1, 1, 11, 12), "P\n", "f\t!", "\udfff"))
    assert diag_ctx.rendered() == golden("""
        error: bell␇ ␛[2J
         --> m␛␊:1:11
          |
        1 | a␛[31m\ufffdb\ufffd\ufffd␀c
          |           ^
          |
          = in pass P␊, function f    !, module \ufffd
    """)


def test_multiline_span_is_drawn_from_start_to_end() -> None:
    assert rendered_warning(PROGRAM, 1, 15, 4, 2) == golden("""
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


def test_span_beyond_text_ends_with_text() -> None:
    assert rendered_warning("ab\ncd", 1, 2, 99, 1) == rendered_warning("ab\ncd\n", 1, 2, 99, 99)
    assert rendered_warning("ab\ncd", 1, 2, 99, 1) == golden("""
        warning: here
         --> m:1:2
          |
        1 |   ab
          |  __^
        2 | | cd
          | |__^
    """)


def test_multiline_span_aligns_tabs_and_wide_characters() -> None:
    assert rendered_warning("\t名(\n\n\t 前)", 1, 2, 3, 4) == golden("""
        warning: here
         --> m:1:2
          |
        1 |       名(
          |  _____^^
        2 | |
        3 | |      前)
          | |______^^
    """)


def test_middle_of_long_span_is_elided() -> None:
    rows = [f"line {number}" for number in range(1, 21)]
    assert rendered_warning("\n".join(rows), 3, 1, 10, 3) == golden("""
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
    assert rendered_warning("\n".join(rows), 4, 1, 10, 3).endswith(f"\n{inner}\n10 | | line 10\n   | |__^")


CHARACTERS = "ab z{%@\té\u07c0ßжאع한名前カ🚀\uff21…—"


def expanded(text: str) -> str:
    return text.replace("\t", "    ")


@LAW
@given(st.text(CHARACTERS), st.text(CHARACTERS, min_size=1), st.text(CHARACTERS))
def test_carets_are_below_characters_of_span(before: str, inside: str, after: str) -> None:
    start, end = len(before) + 1, len(before) + len(inside) + 1
    *_, line, mark = rendered_warning(f"first\n{before}{inside}{after}\nlast", 2, start, 2, end).split("\n")
    assert line == f"2 | {expanded(before + inside + after)}".rstrip()
    assert mark == f"  | {' ' * cell_len(expanded(before))}{'^' * cell_len(expanded(inside))}"


@LAW
@given(st.text(CHARACTERS + "\n", max_size=40), st.text(CHARACTERS + "\n", max_size=40))
def test_multiline_span_joins_first_and_last_character(before: str, inside: str) -> None:
    opening, number = before.rpartition("\n")[2], before.count("\n") + 1
    last = number + inside.count("\n") + 1
    rows = rendered_warning(f"{before}({inside}\n\t名)\nlast", number, len(opening) + 1, last, 4).split("\n")[2:]
    blank = " " * len(str(last))
    line = expanded(f"{opening}({inside.partition(chr(10))[0]}").rstrip()
    underline = "_" * (cell_len(expanded(opening)) + 1)
    assert rows[:3] == [f"{blank} |", f"{number:>{len(blank)}} |   {line}", f"{blank} |  {underline}^"]
    assert rows[-2:] == [f"{last} | |     名)", f"{blank} | |_______^"]
    assert len(rows) == 4 + min(last - number, 6)
