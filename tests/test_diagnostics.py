"""Diagnostics: what is gathered, how it is rendered to the last column, and what happens at the limits."""

import dataclasses
import doctest
import io
import os
import pty
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import dedent
from typing import cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from apass import diagnostics
from apass.diagnostics import Diagnostic, DiagnosticContext, DiagnosticLevel, Span
from apass.errors import DiagnosticError

ERROR, WARNING, NOTE, HELP = DiagnosticLevel
ANSI = re.compile("\x1b\\[[0-9;]*m")
PROGRAM = "def @main(%x) {\n  let %y = add(%x);\n  %y\n}\n"


def golden(text: str) -> str:
    return dedent(text).strip("\n")


def at(line: int, column: int, end_line: int, end_column: int) -> Span:
    return Span("m", line, column, end_line, end_column)


def shown(text: str, *places: int) -> str:
    """Return how a warning is rendered at line, column, end_line and end_column of source "m", which is `text`."""
    diag_ctx = DiagnosticContext({"m": text})
    diag_ctx.warning("here", at(*places))
    return diag_ctx.rendered()


@pytest.fixture(autouse=True)
def colour_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


# The values.


def test_the_examples_in_the_docstrings_are_true() -> None:
    failed, attempted = doctest.testmod(diagnostics)
    assert (failed, attempted >= 6) == (0, True)


def test_levels_have_the_numbers_of_tvm() -> None:
    assert {level.name: int(level) for level in DiagnosticLevel} == {"ERROR": 20, "WARNING": 30, "NOTE": 40, "HELP": 50}


def test_a_builder_makes_a_diagnostic_of_its_level() -> None:
    span = at(1, 1, 1, 2)
    built = [build("m", span) for build in (Diagnostic.error, Diagnostic.warning, Diagnostic.note, Diagnostic.help)]
    assert built == [Diagnostic(level, "m", span, None, None, None) for level in (ERROR, WARNING, NOTE, HELP)]


def test_diagnostics_and_spans_are_frozen_values() -> None:
    one, other = (Diagnostic.error("m", at(1, 1, 1, 2)) for _ in range(2))
    assert {one, other} == {one}
    for value, name in ((one, "message"), (at(1, 1, 1, 1), "line")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "changed")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level": 20}, "level of a diagnostic must be of type DiagnosticLevel, not 20"),
        ({"message": ValueError("no")}, "message of a diagnostic must be of type str, not ValueError('no')"),
        ({"span": (1, 2)}, "span of a diagnostic must be of type Span | None, not (1, 2)"),
        ({"function": 3}, "function of a diagnostic must be of type str | None, not 3"),
        ({"span": Span("m", 1, 1, 1, cast("int", "9"))}, "end_column of a span must be of type int, not '9'"),
        ({"span": Span(cast("str", None), 1, 1, 1, 1)}, "source_name of a span must be of type str, not None"),
    ],
)
def test_a_field_of_the_wrong_type_is_refused_at_once(fields: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^the {re.escape(message)}$"):
        cast("type[object]", Diagnostic)(**({"level": NOTE, "message": "m"} | fields))


def test_what_is_no_diagnostic_or_no_text_or_no_limit_is_refused_at_once() -> None:
    diag_ctx = DiagnosticContext()
    with pytest.raises(TypeError, match=r"^the argument of emit\(\) must be of type Diagnostic, not 'oops'$"):
        diag_ctx.emit(cast("Diagnostic", "oops"))
    with pytest.raises(TypeError, match=r"^the text of source 'm' must be of type str, not b'let'$"):
        diag_ctx.add_source("m", cast("str", b"let"))
    for limit, source_limit in ((0, 1), (1, -1)):
        message = f"limit and source_limit must be at least 1, not {limit} and {source_limit}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            DiagnosticContext(limit=limit, source_limit=source_limit)


# What is pending, and when it is cleared and raised.


def test_what_is_pending_is_a_tuple_in_the_order_of_emission() -> None:
    diag_ctx, span = DiagnosticContext(), at(1, 1, 1, 1)
    diag_ctx.warning("w", span)
    diag_ctx.error("e", span)
    diag_ctx.help("h", span)
    diag_ctx.note("n", span)
    diag_ctx.emit(Diagnostic.error("last"))
    emitted = [Diagnostic(*one, span) for one in ((WARNING, "w"), (ERROR, "e"), (HELP, "h"), (NOTE, "n"))]
    assert diag_ctx.diagnostics == (*emitted, Diagnostic.error("last"))


def test_nothing_pending_renders_as_nothing_and_writes_nothing() -> None:
    file = io.StringIO()
    texts = [DiagnosticContext().rendered(), DiagnosticContext().render(file=file), file.getvalue()]
    assert texts == ["", "", ""]


def test_render_without_an_error_returns_the_text_and_clears() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("careful")
    assert (diag_ctx.render(), diag_ctx.diagnostics, diag_ctx.render()) == ("warning: careful", (), "")


def test_render_with_an_error_writes_clears_and_raises_the_plain_text() -> None:
    diag_ctx, file = DiagnosticContext({"m": PROGRAM}), io.StringIO()
    diag_ctx.warning("odd")
    diag_ctx.error("no such operator", at(2, 12, 2, 15))
    plain, coloured = diag_ctx.rendered(), diag_ctx.rendered(color=True)
    assert plain == golden("""
        warning: odd

        error: no such operator
         --> m:2:12
          |
        2 |   let %y = add(%x);
          |            ^^^
    """)
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render(file=file, color=True)
    assert (str(caught.value), file.getvalue()) == (plain, coloured + "\n")
    assert (diag_ctx.diagnostics, diag_ctx.render()) == ((), "")


def test_rendered_neither_clears_nor_raises() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.error("wrong")
    assert (diag_ctx.rendered(), diag_ctx.rendered()) == ("error: wrong", "error: wrong")
    assert diag_ctx.diagnostics == (Diagnostic.error("wrong"),)


# What is shown together.


def test_notes_and_helps_are_shown_with_the_error_that_they_follow() -> None:
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


def test_notes_go_with_the_error_of_their_own_pass_and_function_however_tasks_take_turns() -> None:
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


def test_the_origin_is_named_below_the_excerpt() -> None:
    diag_ctx = DiagnosticContext({"m": "\n" * 9 + "%y"})
    diag_ctx.emit(Diagnostic(ERROR, "bad", at(10, 1, 10, 3), "FoldConstant", "main", "resnet"))
    diag_ctx.emit(Diagnostic(ERROR, "bad", Span("unknown", 7, 1, 7, 3), None, "main", None))
    assert diag_ctx.rendered() == golden("""
        error: bad
          --> m:10:1
           |
        10 | %y
           | ^^
           |
           = in pass FoldConstant, function main, module resnet

        error: bad
         --> unknown:7:1
          = in function main
    """)


def test_a_message_of_several_lines_is_indented_below_its_label() -> None:
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("one\r\n  two\n\nthree \n\n")
    diag_ctx.help("")
    assert diag_ctx.rendered() == "warning: one\n           two\n\n         three\nhelp:"


def test_a_source_may_be_added_or_replaced_after_the_diagnostic_and_the_oldest_makes_room() -> None:
    diag_ctx = DiagnosticContext({"a": "aa", "b": "bb"}, source_limit=2)
    for name in "abc":
        diag_ctx.warning(name, Span(name, 1, 1, 1, 2))
    diag_ctx.add_source("a", "AA")
    diag_ctx.add_source("c", "cc")
    excerpts = ("\n  |\n1 | AA\n  | ^", "", "\n  |\n1 | cc\n  | ^")
    groups = [f"warning: {name}\n --> {name}:1:1{excerpt}" for name, excerpt in zip("abc", excerpts, strict=True)]
    assert diag_ctx.rendered() == "\n\n".join(groups)


# Excerpts, to the column.

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


# Colour, and the file that is written to.


def test_with_colour_the_level_the_message_the_gutter_and_the_mark_have_theirs() -> None:
    diag_ctx = DiagnosticContext({"m": "abc"})
    diag_ctx.error("e", at(1, 2, 1, 4))
    for emit in (diag_ctx.warning, diag_ctx.note, diag_ctx.help):
        emit("m")
    blue, bold, off = "\x1b[1;34m", "\x1b[1m", "\x1b[0m"
    error = f"\x1b[1;31merror:{off} {bold}e{off}\n {blue}-->{off} m:1:2\n{blue}  |{off}\n{blue}1 |{off} abc\n"
    mark = f"{blue}  |{off}  \x1b[1;31m^^{off}"
    others = ("\x1b[1;33mwarning:", "\x1b[1;32mnote:", "\x1b[1;36mhelp:")
    assert diag_ctx.rendered(color=True) == f"{error}{mark}\n\n" + "\n".join(f"{o}{off} {bold}m{off}" for o in others)


@pytest.fixture
def terminal() -> Iterator[tuple[io.TextIOWrapper, int]]:
    """A real pseudo-terminal: the file to write to, and the descriptor to read what it shows from."""
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as file:
        yield file, reader
    os.close(reader)


@pytest.mark.parametrize(
    ("no_color", "color", "coloured"),
    [("", None, True), ("1", None, False), ("", False, False), ("1", True, True)],
)
def test_a_terminal_gets_colour_unless_it_is_refused(
    terminal: tuple[io.TextIOWrapper, int],
    monkeypatch: pytest.MonkeyPatch,
    no_color: str,
    color: bool | None,
    coloured: bool,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    file, reader = terminal
    diag_ctx = DiagnosticContext()
    diag_ctx.warning("w")
    expected = diag_ctx.rendered(color=coloured)
    assert diag_ctx.render(file=file, color=color) == expected
    file.flush()
    assert os.read(reader, 1000).decode().replace("\r\n", "\n") == expected + "\n"


def test_a_file_that_is_no_terminal_gets_plain_text() -> None:
    diag_ctx, file = DiagnosticContext(), io.StringIO()
    diag_ctx.warning("w")
    assert (diag_ctx.render(file=file), file.getvalue()) == ("warning: w", "warning: w\n")


def test_what_the_encoding_of_the_file_lacks_is_escaped() -> None:
    data = io.BytesIO()
    file = io.TextIOWrapper(data, encoding="ascii", newline="\n", write_through=True)
    diag_ctx = DiagnosticContext({"m": "%名"})
    diag_ctx.warning("é", at(1, 2, 1, 3))
    assert diag_ctx.render(file=file) == "warning: é\n --> m:1:2\n  |\n1 | %名\n  |  ^^"
    assert data.getvalue() == b"warning: \\xe9\n --> m:1:2\n  |\n1 | %\\u540d\n  |  ^^\n"


def test_when_writing_fails_its_error_carries_the_text(tmp_path: Path) -> None:
    path = tmp_path / "read_only.txt"
    path.touch()
    diag_ctx = DiagnosticContext()
    diag_ctx.error("wrong")
    with path.open(encoding="utf-8") as file, pytest.raises(io.UnsupportedOperation) as caught:
        diag_ctx.render(file=file)
    assert caught.value.__notes__ == ["these diagnostics could not be written:\nerror: wrong"]


def test_a_closed_file_is_noticed_before_anything_is_cleared() -> None:
    diag_ctx, file = DiagnosticContext(), io.StringIO()
    file.close()
    diag_ctx.error("wrong")
    with pytest.raises(ValueError, match="closed file"):
        diag_ctx.render(file=file)
    assert diag_ctx.diagnostics == (Diagnostic.error("wrong"),)


# The limits.


def test_beyond_the_limit_diagnostics_are_counted_by_level() -> None:
    diag_ctx = DiagnosticContext(limit=2)
    for level in (ERROR, NOTE, HELP, WARNING, ERROR, WARNING):
        diag_ctx.emit(Diagnostic(level, "m"))
    counted = "4 more not shown (error 1, warning 2, help 1): at most 2 are kept until they are rendered"
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render()
    assert str(caught.value) == f"error: m\nnote: m\n\nnote: {counted}"


def test_rendering_makes_room_again_and_forgets_what_was_counted() -> None:
    diag_ctx = DiagnosticContext(limit=1)
    diag_ctx.warning("first")
    diag_ctx.warning("second")
    diag_ctx.render()
    diag_ctx.warning("third")
    assert diag_ctx.render() == "warning: third"


def test_a_flood_of_warnings_does_not_hide_the_first_error() -> None:
    diag_ctx = DiagnosticContext(limit=2)
    for level, message in ((WARNING, "w0"), (WARNING, "w1"), (WARNING, "w2"), (ERROR, "e0"), (ERROR, "e1")):
        diag_ctx.emit(Diagnostic(level, message))
    counted = "3 more not shown (error 1, warning 2): at most 2 are kept until they are rendered"
    with pytest.raises(DiagnosticError) as caught:
        diag_ctx.render()
    assert str(caught.value) == f"warning: w0\n\nerror: e0\n\nnote: {counted}"


def test_the_default_limit_is_ten_thousand() -> None:
    diag_ctx = DiagnosticContext()
    for _ in range(10_001):
        diag_ctx.warning("again")
    assert diag_ctx.diagnostics == (Diagnostic.warning("again"),) * 10_000


# Many tasks, many threads.


@pytest.mark.anyio
async def test_tasks_that_take_turns_share_a_context_and_keep_their_notes() -> None:
    diag_ctx = DiagnosticContext()

    async def check(function: str) -> None:
        for level in (ERROR, NOTE, HELP):
            diag_ctx.emit(Diagnostic(level, "m", function=function))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as task_group:
        for number in range(20):
            task_group.start_soon(check, str(number))
    levels = [diagnostic.level for diagnostic in diag_ctx.diagnostics]
    assert levels == sorted(levels)  # they did take turns
    groups = {"\n".join(f"{level}: m\n  = in function {n}" for level in ("error", "note", "help")) for n in range(20)}
    assert set(diag_ctx.rendered().split("\n\n")) == groups


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.anyio
@pytest.mark.usefixtures("hasty_threads")
async def test_threads_lose_nothing_while_another_renders() -> None:
    diag_ctx, rendered, done = DiagnosticContext(limit=4), list[str](), anyio.Event()

    def emit(diagnostic: Diagnostic) -> None:
        for _ in range(4_000):
            diag_ctx.emit(diagnostic)

    def render() -> None:
        rendered.extend(diag_ctx.render() for _ in range(50))

    async def keep_rendering() -> None:
        while not done.is_set():
            await anyio.to_thread.run_sync(render)

    async with anyio.create_task_group() as renderers:
        renderers.start_soon(keep_rendering)
        async with anyio.create_task_group() as emitters:
            for _ in range(4):
                emitters.start_soon(anyio.to_thread.run_sync, emit, Diagnostic.warning("w"))
        done.set()
    text = "\n\n".join([*rendered, diag_ctx.render()])
    assert text.count("warning: w") + sum(map(int, re.findall(r"note: (\d+) more", text))) == 16_000


# Laws.

LAW = settings(deadline=None)
ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\n\r\t \x1b\u0301\u202e名🚀"), max_size=60)
INTEGERS = st.integers(-2, 12) | st.integers()
SPANS = st.builds(Span, st.just("m") | ANY_TEXT, INTEGERS, INTEGERS, INTEGERS, INTEGERS)
LEVELS = st.sampled_from(DiagnosticLevel)
NAMES = st.none() | ANY_TEXT
DIAGNOSTICS = st.builds(Diagnostic, LEVELS, ANY_TEXT, st.none() | SPANS, NAMES, NAMES, NAMES)
CHARACTERS = "ab z{%@\té\u07c0ßжאع한名前カ🚀\uff21…—"


def expanded(text: str) -> str:
    return text.replace("\t", "    ")


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


@LAW
@given(st.lists(LEVELS, max_size=30), st.integers(1, 12))
def test_what_is_kept_and_what_is_counted_is_all_that_was_emitted(levels: list[DiagnosticLevel], limit: int) -> None:
    diag_ctx = DiagnosticContext(limit=limit)
    for number, level in enumerate(levels):
        diag_ctx.emit(Diagnostic(level, str(number)))
    kept = diag_ctx.diagnostics
    assert len(kept) == min(limit, len(levels))
    assert kept[:-1] == tuple(Diagnostic(level, str(n)) for n, level in enumerate(levels[: len(kept)]))[:-1]
    assert (ERROR in levels) == any(one.level is ERROR for one in kept)
    counted = re.search(r"note: (\d+) more not shown \((.*)\): ", diag_ctx.rendered())
    dropped = {} if counted is None else {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", counted[2])}
    assert sum(dropped.values()) == (0 if counted is None else int(counted[1])) == len(levels) - len(kept)
    for level in DiagnosticLevel:
        assert sum(one.level is level for one in kept) + dropped.get(level.name.lower(), 0) == levels.count(level)
