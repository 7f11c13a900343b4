"""Analyses: asked by passes, and computed once for equal contents."""

import threading
from collections.abc import Callable
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

import apass
from apass import PassContext
from tests.helpers.analyses import Module, asking, counted

pytestmark = pytest.mark.anyio


async def test_many_askers_of_the_same_share_one_computation() -> None:
    length, seen = counted()
    modules = {f"m{index}": {f"f{n}": "xyz" if n % 2 else "ab" for n in range(20)} for index in range(20)}
    async with PassContext() as ctx:
        made = await apass.optimize_all(modules, asking(length))
    assert made["m3"]["f4"] == "ab:2"
    assert made["m7"]["f5"] == "xyz:3"
    assert (sorted(seen), ctx.analyses.counts["computed"]) == (["ab", "xyz"], 2)


async def test_options_are_part_of_what_is_asked() -> None:
    length, seen = counted()
    async with PassContext() as ctx:
        unhashable: Any = [1]
        answers = [await ctx.get(length, "abc", factor=factor) for factor in (2, 3, 2)]
    assert (answers, seen) == ([6, 9, 6], ["abc", "abc"])
    with pytest.raises(apass.AnalysisError, match=r"the option factor=\[1\] of Length cannot be hashed"):
        await ctx.get(length, "abc", factor=unhashable)


async def test_a_failure_goes_to_all_who_wait_and_is_not_kept() -> None:
    begun, fails = anyio.Event(), [True]

    @apass.analysis
    async def Flaky(func: str) -> int:
        begun.set()
        await anyio.wait_all_tasks_blocked()
        if fails:
            fails.clear()
            raise ValueError("no answer")
        return 1

    ctx, errors = PassContext(), list[str]()

    async def ask() -> None:
        try:
            await ctx.get(Flaky, "f")
        except ValueError as error:
            errors.append(str(error))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(ask)
    assert (errors, await ctx.get(Flaky, "f")) == (["no answer"] * 3, 1)


async def test_the_cancellation_of_one_asker_does_not_fail_the_others() -> None:
    tries: list[int] = []
    go = anyio.Event()

    @apass.analysis
    async def Slow(func: str) -> int:
        tries.append(1)
        await go.wait()
        return 7

    ctx, answers = PassContext(), list[int]()

    async def ask() -> None:
        answers.append(await ctx.get(Slow, "f"))

    async with anyio.create_task_group() as group:
        first = anyio.CancelScope()

        async def ask_first() -> None:
            with first:
                await ctx.get(Slow, "f")

        group.start_soon(ask_first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(ask)
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert (answers, len(tries)) == ([7, 7], 2)


async def test_a_plain_body_finds_what_it_requires() -> None:
    length, seen = counted()

    @apass.function_pass(opt_level=0, required=[length])
    def Plain(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(length, func)

    async with PassContext() as ctx:
        assert await Plain({"f": "ab", "g": "c"}) == {"f": "abab", "g": "c"}
        with pytest.raises(apass.AnalysisError, match="the result of Length is not there"):
            ctx.got(length, "never asked")
    assert Plain.info.required == ()
    assert sorted(seen) == ["ab", "c"]


async def test_analyses_that_ask_in_a_circle_are_an_error_and_no_deadlock() -> None:
    found: dict[str, apass.Analysis[int]] = {}

    @apass.analysis
    async def One(func: str, ctx: PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return await ctx.get(found["Other"], func)

    @apass.analysis
    async def Other(func: str, ctx: PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return await ctx.get(One, func)

    found["Other"] = Other
    ctx, errors = PassContext(), list[str]()

    async def ask(which: apass.Analysis[int]) -> None:
        try:
            await ctx.get(which, "f")
        except apass.AnalysisError as error:
            errors.append(str(error))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(ask, One)
            group.start_soon(ask, Other)
    assert len(errors) == 2
    assert all("asks its way back to itself" in error for error in errors)


async def test_results_make_room_for_new_ones() -> None:
    length, seen = counted()
    ctx = PassContext()
    ctx.analyses._limit = 3  # pyright: ignore[reportPrivateUsage]
    for text in ("a", "bb", "ccc", "a", "dddd", "bb"):
        await ctx.get(length, text)
    assert (len(ctx.analyses), seen) == (3, ["a", "bb", "ccc", "dddd", "bb"])


def takes_nothing() -> int:
    return 1


def takes_three(one: str, two: str, three: str) -> int:
    return 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (takes_nothing, "must take (x) or (x, ctx)"),
        (takes_three, "must take (x) or (x, ctx)"),
        (int, "analysis takes a function"),
    ],
)
def test_what_is_no_analysis_is_an_error(wrong: Callable[..., Any], message: str) -> None:
    with pytest.raises(apass.PassDefinitionError) as caught:
        apass.analysis(wrong)
    assert message in str(caught.value)


class Opaque:
    """What has no contents that a fingerprint could go by."""

    def __init__(self, value: int) -> None:
        self.value = value


async def test_an_object_that_is_gone_does_not_lend_its_results_to_another() -> None:
    @apass.analysis
    def Value(func: Opaque) -> int:
        return func.value

    ctx = PassContext()
    assert [await ctx.get(Value, Opaque(index)) for index in range(5)] == list(range(5))


async def test_a_pass_by_subclassing_finds_its_analyses_too() -> None:
    @apass.analysis
    async def Size(mod: Module) -> int:
        return len(mod)

    class Count(apass.ModulePass[Module]):
        info = apass.PassInfo(opt_level=0, name="Count")
        analyses = (Size,)

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return {"size": ctx.got(Size, mod)}

    assert await Count()({"f": 1, "g": 2}) == {"size": 2}


async def test_what_a_pass_requires_is_there_in_a_thread_too() -> None:
    length, _ = counted()

    def plain(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(length, func)

    make: Any = apass.function_pass
    async with PassContext(executor="thread"):
        assert await make(plain, opt_level=0, required=[length])({"f": "ab"}) == {"f": "abab"}
    assert await make(plain, opt_level=0, required=[length], executor="thread")({"f": "ab"}) == {"f": "abab"}


def test_threads_may_share_a_context() -> None:
    @apass.analysis
    async def Slow(func: str) -> int:
        begun.wait(60)
        await anyio.lowlevel.checkpoint()
        return len(func)

    ctx, answers, begun = PassContext(), list[int](), threading.Barrier(3)

    async def ask() -> None:
        answers.append(await ctx.get(Slow, "abc"))

    threads = [threading.Thread(target=anyio.run, args=(ask,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [3, 3, 3]


async def test_options_of_another_type_are_others_and_what_is_no_analysis_is_said_so() -> None:
    @apass.analysis
    def Twice(func: str, *, factor: float = 1) -> float:
        return factor * 2

    ctx, no_analysis = PassContext(), cast("apass.Analysis[int]", len)
    assert [repr(await ctx.get(Twice, "f", factor=one)) for one in (1, 1.0)] == ["2", "2.0"]
    with pytest.raises(apass.AnalysisError, match=r"is no analysis; make it one with @apass\.analysis"):
        await ctx.get(no_analysis, "f")
