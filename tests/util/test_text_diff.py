"""Diffs of texts."""

from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from apass.util.text_diff import diff_texts, paint_diff

lines = st.lists(st.sampled_from("abc"), max_size=12).map("\n".join)


@given(lines, lines, st.integers(0, 3))
def test_a_diff_turns_one_text_into_the_other(before: str, after: str, context: int) -> None:
    made = before.splitlines()
    for hunk in diff_texts(before, after, context=context).split("@@ -")[:0:-1]:
        head, *body = hunk.rstrip("\n").split("\n")
        start, _, count = head.split(" ")[0].partition(",")
        old = [line[1:] for line in body if line[:1] in " -"]
        at = int(start) - (count != "0")
        assert made[at : at + len(old)] == old
        made[at : at + len(old)] = [line[1:] for line in body if line[:1] in " +"]
    assert made == after.splitlines()


@given(st.integers(0, 400), st.integers(0, 400))
def test_a_single_change_is_shown_as_difflib_shows_it(at: int, size: int) -> None:
    before = [f"line {index}" for index in range(size + 1)]
    after = [*before[: at % len(before)], "changed", *before[at % len(before) + 1 :]]
    wanted = "\n".join([*unified_diff(before, after, lineterm="")][2:])
    assert diff_texts("\n".join(before), "\n".join(after)) == wanted


def test_what_is_over_the_limit_is_counted() -> None:
    assert diff_texts("a\nb\nc", "x\ny\nz", limit=3) == "@@ -1,3 +1,3 @@\n-a\n-b\n... and 4 more lines"


def test_colours_go_by_the_first_character() -> None:
    assert paint_diff("@@ -1 +1 @@\n-a\n+b\n c") == (
        "\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n c"
    )
