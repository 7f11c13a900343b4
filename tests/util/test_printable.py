"""`printable`: escapes for terminals and logs."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.util.printable import LAYOUT, for_file, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\N{GREEK SMALL LETTER ALPHA}\N{NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}", "\u03b1\u00a0\u3000"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\rb\nc\td\x08", r"a\rb\nc\td\x08"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2028\u2029\u2066\u200b\ufeff", r"\u2028\u2029\u2066\u200b\ufeff"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
    ids=ascii,
)
def test_control_characters_are_shown_as_escapes(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_result_is_one_printable_line(text: str) -> None:
    shown = printable(text)
    assert len(shown.splitlines()) <= 1
    assert all(char.isprintable() or char.isspace() for char in shown)
    assert printable(shown) == shown
    shown.encode()


@given(st.text())
def test_layout_is_kept(text: str) -> None:
    assert printable(text, LAYOUT).split("\n") == [printable(line, LAYOUT) for line in text.split("\n")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_terminals_get_escapes() -> None:
    assert for_file("a\n\x1b", Terminal()) == "a\n\\x1b"
    assert for_file("a\n\x1b", io.StringIO()) == "a\n\x1b"
