"""Diagnostics as text: what is shown together, in which colour, and in what file."""

import io
import os
import pty
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.core.diagnostics import Diagnostic, DiagnosticContext, Span
from apass.errors import DiagnosticError
from tests.helpers.diagnostics import ERROR, HELP, LAW, LEVELS, NOTE, PROGRAM, WARNING, at, golden

ANSI = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(autouse=True)
def colour_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


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
