"""`diff_texts` and `paint_diff`."""

from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from apass.util.text_diff import diff_texts, limit_lines, paint_diff

lines = st.lists(st.sampled_from("abc"), max_size=12).map("\n".join)


@given(lines, lines, st.integers(0, 3))
def test_applied_diff_gives_the_second_text(before: str, after: str, context: int) -> None:
    patched = before.splitlines()
    for hunk in diff_texts(before, after, context=context).split("@@ -")[:0:-1]:
        head, *body = hunk.rstrip("\n").split("\n")
        start, _, count = head.split(" ")[0].partition(",")
        old = [line[1:] for line in body if line[:1] in " -"]
        # A hunk that only adds lines gives the line before them.
        index = int(start) - (count != "0")
        assert patched[index : index + len(old)] == old
        patched[index : index + len(old)] = [line[1:] for line in body if line[:1] in " +"]
    assert patched == after.splitlines()


@given(st.integers(0, 400), st.integers(0, 400))
def test_single_change_matches_difflib(index: int, size: int) -> None:
    before = [f"line {number}" for number in range(size + 1)]
    after = [*before[: index % len(before)], "changed", *before[index % len(before) + 1 :]]
    expected = "\n".join([*unified_diff(before, after, lineterm="")][2:])
    assert diff_texts("\n".join(before), "\n".join(after)) == expected


def test_limited_diff_counts_the_remaining_lines() -> None:
    diff = diff_texts("a\nb\nc", "x\ny\nz", heading="f")
    assert limit_lines(diff, 3) == "@@ -1,3 +1,3 @@ f\n-a\n-b\n... and 4 more lines"
    assert limit_lines(diff, 7) == limit_lines(diff, None) == diff


def test_first_character_decides_the_colour() -> None:
    assert paint_diff("@@ -1 +1 @@\n-a\n+b\n c") == (
        "\x1b[36m@@ -1 +1 @@\x1b[0m\n\x1b[31m-a\x1b[0m\n\x1b[32m+b\x1b[0m\n c"
    )
