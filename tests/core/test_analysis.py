"""Analyses: requested by passes, computed once for equal contents."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

import apass
from apass import PassContext, analysis, function_pass
from apass.errors import VerifyError
from apass.instruments import RunSettings
from tests.helpers.analyses import Module, length_analysis, requesting_pass

pytestmark = pytest.mark.anyio


async def test_concurrent_requests_share_one_computation() -> None:
    length, computed = length_analysis()
    modules = {f"m{index}": {f"f{n}": "xyz" if n % 2 else "ab" for n in range(20)} for index in range(20)}
    async with PassContext() as ctx:
        results = await apass.optimize_all(modules, requesting_pass(length))
    assert results["m3"]["f4"] == "ab:2"
    assert results["m7"]["f5"] == "xyz:3"
    assert (sorted(computed), ctx.analyses.counts["computed"]) == (["ab", "xyz"], 2)


async def test_options_are_part_of_analysis_key() -> None:
    length, computed = length_analysis()
    async with PassContext() as ctx:
        unhashable: Any = [1]
        results = [await ctx.get(length, "abc", factor=factor) for factor in (2, 3, 2)]
    assert (results, computed) == ([6, 9, 6], ["abc", "abc"])
    with pytest.raises(apass.errors.AnalysisError, match=r"the option factor=\[1\] of Length cannot be hashed"):
        await ctx.get(length, "abc", factor=unhashable)


async def test_error_reaches_all_callers_and_is_not_cached() -> None:
    started, failures = anyio.Event(), [True]

    @apass.analysis
    async def Flaky(func: str) -> int:
        started.set()
        await anyio.wait_all_tasks_blocked()
        if failures:
            failures.clear()
            raise ValueError("no answer")
        return 1

    ctx, errors = PassContext(), list[str]()

    async def request() -> None:
        try:
            await ctx.get(Flaky, "f")
        except ValueError as error:
            errors.append(str(error))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(request)
    assert (errors, await ctx.get(Flaky, "f")) == (["no answer"] * 3, 1)


async def test_cancelled_caller_does_not_fail_other_callers() -> None:
    computations: list[int] = []
    resume = anyio.Event()

    @apass.analysis
    async def Slow(func: str) -> int:
        computations.append(1)
        await resume.wait()
        return 7

    ctx, results = PassContext(), list[int]()

    async def request() -> None:
        results.append(await ctx.get(Slow, "f"))

    async with anyio.create_task_group() as group:
        first_scope = anyio.CancelScope()

        async def request_first() -> None:
            with first_scope:
                await ctx.get(Slow, "f")

        group.start_soon(request_first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(request)
        group.start_soon(request)
        await anyio.wait_all_tasks_blocked()
        first_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        resume.set()
    assert (results, len(computations)) == ([7, 7], 2)


async def test_plain_body_reads_required_analysis() -> None:
    length, computed = length_analysis()

    @apass.function_pass(opt_level=0, required=[length])
    def Plain(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(length, func)

    async with PassContext() as ctx:
        assert await Plain({"f": "ab", "g": "c"}) == {"f": "abab", "g": "c"}
        with pytest.raises(apass.errors.AnalysisError, match="the result of Length is not available"):
            ctx.got(length, "not requested")
    assert Plain.info.required == ()
    assert sorted(computed) == ["ab", "c"]


async def test_cyclic_analyses_raise_instead_of_deadlocking() -> None:
    analyses: dict[str, apass.Analysis[int]] = {}

    @apass.analysis
    async def First(func: str, ctx: PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return await ctx.get(analyses["Second"], func)

    @apass.analysis
    async def Second(func: str, ctx: PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        return await ctx.get(First, func)

    analyses["Second"] = Second
    ctx, errors = PassContext(), list[str]()

    async def request(analysis: apass.Analysis[int]) -> None:
        try:
            await ctx.get(analysis, "f")
        except apass.errors.AnalysisError as error:
            errors.append(str(error))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(request, First)
            group.start_soon(request, Second)
    assert len(errors) == 2
    assert all("requires itself" in error for error in errors)


async def test_results_are_evicted_beyond_limit() -> None:
    length, computed = length_analysis()
    ctx = PassContext()
    ctx.analyses._limit = 3  # pyright: ignore[reportPrivateUsage]
    for text in ("a", "bb", "ccc", "a", "dddd", "bb"):
        await ctx.get(length, text)
    assert (len(ctx.analyses), computed) == (3, ["a", "bb", "ccc", "dddd", "bb"])


def takes_nothing() -> int:
    return 1


def takes_three(first: str, second: str, third: str) -> int:
    return 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (takes_nothing, "must take (x) or (x, ctx)"),
        (takes_three, "must take (x) or (x, ctx)"),
        (int, "analysis takes a function"),
    ],
)
def test_invalid_analysis_function_raises(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(apass.errors.PassDefinitionError) as caught:
        apass.analysis(function)
    assert message in str(caught.value)


class Opaque:
    """An object without contents to fingerprint."""

    def __init__(self, value: int) -> None:
        self.value = value


async def test_result_is_not_reused_for_new_object() -> None:
    @apass.analysis
    def Value(func: Opaque) -> int:
        return func.value

    ctx = PassContext()
    assert [await ctx.get(Value, Opaque(index)) for index in range(5)] == list(range(5))


async def test_subclassed_pass_reads_its_analyses() -> None:
    @apass.analysis
    async def Size(mod: Module) -> int:
        return len(mod)

    class Count(apass.ModulePass[Module]):
        info = apass.PassInfo(opt_level=0, name="Count")
        analyses = (Size,)

        def transform_module(self, mod: Module, ctx: PassContext) -> Module:
            return {"size": ctx.got(Size, mod)}

    assert await Count()({"f": 1, "g": 2}) == {"size": 2}


async def test_thread_body_reads_required_analysis() -> None:
    length, _ = length_analysis()

    def plain(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(length, func)

    declare: Any = apass.function_pass
    async with PassContext(executor="thread"):
        assert await declare(plain, opt_level=0, required=[length])({"f": "ab"}) == {"f": "abab"}
    assert await declare(plain, opt_level=0, required=[length], executor="thread")({"f": "ab"}) == {"f": "abab"}


def test_threads_share_one_context() -> None:
    @apass.analysis
    async def Slow(func: str) -> int:
        started.wait(60)
        await anyio.lowlevel.checkpoint()
        return len(func)

    ctx, results, started = PassContext(), list[int](), threading.Barrier(3)

    async def request() -> None:
        results.append(await ctx.get(Slow, "abc"))

    threads = [threading.Thread(target=anyio.run, args=(request,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [3, 3, 3]


async def test_options_of_different_types_are_distinct() -> None:
    @apass.analysis
    def Twice(func: str, *, factor: float = 1) -> float:
        return factor * 2

    ctx = PassContext()
    assert [repr(await ctx.get(Twice, "f", factor=factor)) for factor in (1, 1.0)] == ["2", "2.0"]


async def test_get_raises_when_argument_is_not_analysis() -> None:
    not_an_analysis = cast("apass.Analysis[int]", len)
    with pytest.raises(apass.errors.AnalysisError, match=r"is not an analysis; create one with @apass\.analysis"):
        await PassContext().get(not_an_analysis, "f")


def count(offset: int, func: str) -> int:
    return len(func) + offset


async def test_false_claim_requested_first_is_reported_first() -> None:
    analyses = [analysis(name=f"A{index}")(partial(count, index)) for index in range(20)]

    @function_pass(opt_level=0, preserves=analyses)
    async def Claim(func: str, _mod: dict[str, str], ctx: PassContext) -> str:
        for requested in analyses:
            await ctx.get(requested, func)
        return f"{func}!"

    with pytest.raises(VerifyError, match="claims to preserve A0, but that was 1 and is 2"):
        async with PassContext(instruments=[RunSettings(strict=True)]):
            await Claim({"f": "x"})
