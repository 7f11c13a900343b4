"""Passes in place: one private copy, honest results, untouched inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.instruments import PassTimingInstrument, RunSettings
from apass.stores import SqliteStore
from tests.helpers.mutable_ir import Append, Calls, ImmutableProgram, Program, copies

pytestmark = pytest.mark.anyio


def program() -> Program:
    return Program({"f": ["a"], "g": []})


async def test_result_is_another_module() -> None:
    copies()
    mod = program()
    result = await Append("x")(mod)
    assert result is not mod
    assert (mod.contents, result.contents) == ({"f": ["a"], "g": []}, {"f": ["a", "x"], "g": ["x"]})


async def test_unchanged_module_is_returned_itself() -> None:
    counts = copies()
    mod = program()
    assert await Calls(lambda private: False)(mod) is mod
    assert counts["copy"] == 1


async def test_pass_without_work_makes_no_copy() -> None:
    class Idle(Append, init=False):
        def has_work(self, mod: Program) -> bool:
            return False

    counts = copies()
    mod = program()
    assert await apass.Sequential([Idle("x"), Idle("y")])(mod) is mod
    assert counts["copy"] == 0


@pytest.mark.parametrize("suspends", [False, True])
async def test_consecutive_passes_share_one_copy(suspends: bool) -> None:
    counts = copies()
    mod = program()
    pipeline = apass.Sequential([Append(word, suspends=suspends) for word in "xyz"])
    result = await pipeline(mod)
    assert result.contents == {"f": ["a", "x", "y", "z"], "g": ["x", "y", "z"]}
    assert (counts["copy"], mod.contents) == (1, program().contents)


async def test_unchanged_copy_serves_the_next_pass() -> None:
    counts = copies()
    result = await apass.Sequential([Calls(lambda private: False), Append("x")])(program())
    assert (counts["copy"], result.contents["g"]) == (1, ["x"])


async def test_nested_sequentials_share_one_copy() -> None:
    counts = copies()
    inner = apass.Sequential([Append("y"), apass.Sequential([Append("z")])])
    result = await apass.Sequential([Append("x"), inner, Append("w")])(program())
    assert (counts["copy"], result.contents["g"]) == (1, ["x", "y", "z", "w"])


async def test_other_pass_may_keep_its_module() -> None:
    counts = copies()
    kept: list[Program] = []

    @apass.module_pass(opt_level=0)
    def Keep(mod: Program, ctx: apass.PassContext) -> Program:
        kept.append(mod)
        return mod

    result = await apass.Sequential([Append("x"), Keep, Append("y")])(program())
    assert (counts["copy"], kept[0].contents["g"], result.contents["g"]) == (2, ["x"], ["x", "y"])


async def test_body_that_calls_passes_keeps_its_modules() -> None:
    seen: list[Sequence[str]] = []

    class Both(apass.ModulePass[Program]):
        info = apass.PassInfo(0, "Both")

        async def transform_module(self, mod: Program, ctx: apass.PassContext) -> Program:
            first = await add_x(mod)
            second = await add_x(first)
            seen.extend([mod.contents["g"], first.contents["g"], second.contents["g"]])
            return second

    copies()
    add_x = Append("x")
    await apass.Sequential([add_x, Both(), add_x])(program())
    assert seen == [["x"], ["x", "x"], ["x", "x", "x"]]


COMBINED = {
    "Repeat": (apass.Repeat([Append("y")], times=2), ["x", "y", "y", "z"]),
    "Race": (apass.Race([Append("y"), Append("w")]), ["x", "y", "z"]),
    "If": (apass.If(lambda mod: True, [Append("y")]), ["x", "y", "z"]),
}


@pytest.mark.parametrize("name", COMBINED)
async def test_combinators_keep_their_input(name: str) -> None:
    copies()
    combinator, expected = COMBINED[name]
    mod = program()
    assert (await apass.Sequential([Append("x"), combinator, Append("z")])(mod)).contents["g"] == expected
    assert mod.contents == program().contents


async def test_instrument_that_reads_modules_sees_each_of_them() -> None:
    class Keep:
        def __init__(self) -> None:
            self.modules: list[Program] = []

        def run_after_pass(self, mod: Program, info: apass.PassInfo) -> None:
            self.modules.append(mod)

    counts = copies()
    keep = Keep()
    async with apass.PassContext(instruments=[keep]):
        await apass.Sequential([Append("x"), Append("y")])(program(), donate=True)
    assert [mod.contents["g"] for mod in keep.modules] == [["x"], ["x", "y"], ["x", "y"]]
    assert counts["copy"] == 2


async def test_instrument_that_ignores_modules_costs_no_copy() -> None:
    counts = copies()
    async with apass.PassContext(instruments=[PassTimingInstrument()]):
        await apass.Sequential([Append("x"), Append("y")])(program())
    assert counts["copy"] == 1


async def test_donated_module_is_not_copied() -> None:
    counts = copies()
    mod = program()
    result = await apass.Sequential([apass.Sequential([Append("x")]), Append("y")])(mod, donate=True)
    assert (counts["copy"], result is mod, result.contents["g"]) == (0, False, ["x", "y"])
    assert await Calls(lambda private: False)(result, donate=True) is result


async def test_pass_with_other_body_ignores_donation() -> None:
    copies()

    @apass.module_pass(opt_level=0)
    async def Twice(mod: Program, ctx: apass.PassContext) -> Program:
        assert (await add_x(mod)).contents["g"] == ["x"]
        return await add_x(mod)

    add_x = Append("x")
    assert (await Twice(program(), donate=True)).contents["g"] == ["x"]


async def test_donation_ends_with_the_call() -> None:
    copies()
    disabled = Append("x", level=3)
    mod = program()
    async with apass.PassContext(disabled_pass=["Append x"], instruments=[]):
        assert await apass.Sequential([disabled])(mod, donate=True) is mod
    assert (await disabled(mod)).contents["g"] == ["x"]
    assert mod.contents == program().contents


@pytest.mark.parametrize("suspends", [False, True])
async def test_failed_pass_leaves_the_input(suspends: bool) -> None:
    def spoil(private: Program) -> Any:
        private.contents.clear()
        raise ValueError("no")

    copies()
    mod = program()
    with pytest.raises(ValueError, match="no"):
        await apass.Sequential([Append("x", suspends=suspends), Calls(spoil)])(mod)
    assert mod.contents == program().contents


async def test_kept_failure_returns_the_previous_state() -> None:
    def spoil(private: Program) -> Any:
        private.contents.clear()
        raise ValueError("no")

    copies()
    failing = Calls(spoil)
    failing.on_error = "keep"
    result = await apass.Sequential([Append("x"), failing, Append("y")])(program())
    assert result.contents["g"] == ["x", "y"]


async def test_cancelled_pass_leaves_the_input() -> None:
    copies()
    mod = program()
    started = anyio.Event()

    async def hang(private: Program) -> bool:
        private.contents.clear()
        started.set()
        await anyio.sleep_forever()
        return True

    async with anyio.create_task_group() as group:
        group.start_soon(apass.Sequential([Append("x"), Calls(hang)]), mod)
        await started.wait()
        group.cancel_scope.cancel()
    assert mod.contents == program().contents


async def test_many_tasks_share_nothing() -> None:
    counts = copies()
    pipeline = apass.Sequential([Append(word, suspends=True) for word in "xyz"])
    mod = program()
    results = await apass.optimize_all([mod] * 50, pipeline)
    assert all(result.contents["g"] == ["x", "y", "z"] for result in results)
    assert (counts["copy"], mod.contents) == (50, program().contents)


async def test_stored_results_are_those_of_each_pass(tmp_path: Path) -> None:
    copies()

    def pipeline() -> apass.Sequential[Program]:
        passes = [Append(word) for word in "xyz"]
        for pass_ in passes:
            pass_.cacheable = True
        return apass.Sequential(passes)

    for _ in range(2):
        async with SqliteStore(tmp_path / "results.db") as store, apass.PassContext(store=store):
            assert (await pipeline()(program())).contents["g"] == ["x", "y", "z"]


async def test_analysis_in_place_sees_the_current_contents() -> None:
    @apass.analysis
    def length(func: list[str], ctx: apass.PassContext) -> int:
        return len(func)

    class Measure(apass.InPlacePass[Program]):
        info = apass.PassInfo(0, "Measure")

        async def transform_in_place(self, mod: Program, ctx: apass.PassContext) -> bool:
            mod.contents["f"].append(str(await ctx.get(length, mod.contents["f"])))
            return True

    copies()
    result = await apass.Sequential([Measure(), Measure(), Measure()])(program())
    assert result.contents["f"] == ["a", "1", "2", "3"]


async def test_adapter_without_commit_copies_each_time() -> None:
    copies()
    mod = ImmutableProgram(program().contents)
    result = await apass.Sequential([Append("x"), Append("y")])(mod)
    assert (result.contents["g"], mod.contents) == (["x", "y"], program().contents)


async def test_strict_context_finds_unreported_changes() -> None:
    def lie(private: Program) -> bool:
        private.contents["f"].append("x")
        return False

    copies()
    async with apass.PassContext(instruments=[RunSettings(strict=True)]):
        assert (await Append("x")(program())).contents["g"] == ["x"]
        with pytest.raises(apass.errors.PassResultError, match="changed the module, but returned False"):
            await Calls(lie, "Lie")(program())


@pytest.mark.parametrize("answer", [None, 1, program()])
async def test_other_result_than_bool_is_an_error(answer: object) -> None:
    copies()
    with pytest.raises(apass.errors.PassResultError, match="transform_in_place of pass 'Calls' returned"):
        await Calls(lambda private: answer)(program())


async def test_result_that_is_awaitable_is_an_error() -> None:
    async def forgets_await(private: Program) -> Any:
        return checkpoint()

    copies()
    with pytest.raises(apass.errors.PassResultError, match="pass 'Calls'"):
        await Calls(forgets_await)(program())


WORDS = st.lists(st.tuples(st.sampled_from("xyz"), st.booleans()), max_size=5)


@given(WORDS, st.booleans())
def test_sharing_changes_no_result(words: list[tuple[str, bool]], donate: bool) -> None:
    async def main() -> None:
        copies()
        passes = [Append(word, suspends=suspends) for word, suspends in words]
        alone = program()
        for pass_ in passes:
            alone = await pass_(alone)
        mod = program()
        assert (await apass.Sequential(passes)(mod, donate=donate)).contents == alone.contents
        assert donate or mod.contents == program().contents

    anyio.run(main)
