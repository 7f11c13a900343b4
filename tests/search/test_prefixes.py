"""`PrefixTree`: what sequences with a common beginning share."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.search.prefixes import Elements, PrefixTree

pytestmark = pytest.mark.anyio


class Runs:
    """Runs passes that append their names, and records each call."""

    def __init__(self, fails: str = "") -> None:
        self.calls: list[tuple[str, str]] = []
        self.fails = fails

    async def __call__(self, mod: str, elements: Elements) -> str:
        self.calls.append((mod, "".join(elements)))
        await anyio.lowlevel.checkpoint()
        if self.fails and self.fails in elements:
            raise ValueError(self.fails)
        return mod + "".join(elements)


async def test_longer_sequence_continues_from_shorter_one() -> None:
    runs = Runs()
    tree = PrefixTree(runs)
    assert await tree.build("m", "-", ("a", "b")) == "-ab"
    assert await tree.build("m", "-", ("a", "b", "c")) == "-abc"
    assert runs.calls == [("-", "ab"), ("-ab", "c")]
    assert (tree.statistics.passes, tree.statistics.runs) == (5, 3)
    assert tree.statistics.saved == pytest.approx(0.4)


async def test_common_beginning_runs_apart_once() -> None:
    runs = Runs()
    tree = PrefixTree(runs)
    for sequence in ("abcd", "abef", "abgh", "abg"):
        assert await tree.build("m", "-", tuple(sequence)) == f"-{sequence}"
    assert runs.calls == [("-", "abcd"), ("-", "ab"), ("-ab", "ef"), ("-ab", "gh"), ("-ab", "g")]


async def test_concurrent_beginnings_run_once() -> None:
    runs = Runs()
    tree = PrefixTree(runs)
    await tree.build("m", "-", tuple("abc"))
    async with anyio.create_task_group() as group:
        for last in "xyz":
            group.start_soon(tree.build, "m", "-", ("a", "b", last))
    assert sorted(runs.calls[1:]) == [("-", "ab"), ("-ab", "x"), ("-ab", "y"), ("-ab", "z")]


async def test_modules_share_nothing() -> None:
    runs = Runs()
    tree = PrefixTree(runs)
    assert await tree.build("m", "-", ("a", "b")) == "-ab"
    assert await tree.build("n", "+", ("a", "b")) == "+ab"


async def test_failed_sequence_is_not_kept() -> None:
    runs = Runs(fails="x")
    tree = PrefixTree(runs)
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            await tree.build("m", "-", tuple("abx"))
    assert await tree.build("m", "-", tuple("aby")) == "-aby"


async def test_oldest_module_is_dropped() -> None:
    runs = Runs()
    tree = PrefixTree(runs, kept=2)
    for sequence in ("a", "b", "c", "ad"):
        await tree.build("m", "-", tuple(sequence))
    assert runs.calls[-1] == ("-", "ad")


@given(st.lists(st.text("abc", max_size=6), max_size=12))
async def test_sharing_changes_no_result(sequences: list[str]) -> None:
    tree = PrefixTree(Runs(), kept=3)
    for sequence in sequences:
        assert await tree.build("m", "-", tuple(sequence)) == f"-{sequence}"
    assert tree.statistics.runs <= tree.statistics.passes == sum(map(len, sequences))
