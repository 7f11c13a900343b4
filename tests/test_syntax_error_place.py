"""The caret of a PipelineSyntaxError stands under the place, however wide what comes before it is."""

from typing import Any

import pytest

from apass import PipelineSyntaxError, UnknownPassError, get_pass, parse_pipeline

LONG = ",".join(["Sequential"] * 100)


def shown(text: str) -> list[str]:
    with pytest.raises(PipelineSyntaxError) as caught:
        parse_pipeline(text)
    return str(caught.value).splitlines()[1:]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Sequential;", ["    Sequential;", "              ^"]),
        ("\tSequential\t;", ["    \tSequential\t;", "    \t          \t^"]),
        ("Sequential, # 日本\n日本語 ;", ["    日本語 ;", "           ^"]),
        ('Sequential{name="e\u0301" ;', ['    Sequential{name="e\u0301" ;', f"{' ' * 24}^"]),
        ("Sequential,\r\n;\r\nSequential", ["    ;", "    ^"]),
    ],
)
def test_the_caret_stands_under_the_place(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [(f"{LONG};", True, False), (f";{LONG}", False, True), (f"{LONG};{LONG}", True, True)],
)
def test_of_a_long_line_what_is_around_the_place_is_shown(text: str, before: bool, after: bool) -> None:
    line, caret = shown(text)
    assert (line.startswith("    ..."), line.endswith("..."), len(line) < 175) == (before, after, True)
    assert line[len(caret) - 1] == ";"


def test_an_error_that_travelled_shows_the_same() -> None:
    with pytest.raises(PipelineSyntaxError) as caught:
        parse_pipeline(f"{LONG};")
    kind, arguments = caught.value.__reduce__()
    assert str(kind(*arguments)) == str(caught.value)


@pytest.mark.parametrize("name", [3, None, ["Repeat"], PipelineSyntaxError])
def test_a_pass_is_looked_up_by_a_name(name: Any) -> None:
    with pytest.raises(UnknownPassError, match=r"a pass is registered under a name, and .* is none"):
        get_pass(name)
