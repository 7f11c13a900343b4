"""Keys of analysis results, their lifetime, and cycles of requests."""

import enum
import gc
import math
import weakref
from typing import Any

import pytest

import apass
from apass import PassContext
from apass.stores import MemoryStore
from tests.helpers.analyses import length_analysis

pytestmark = pytest.mark.anyio


async def test_repeated_request_counts_as_hit() -> None:
    length, _ = length_analysis()
    ctx = PassContext()
    for text in ("ab", "ab", "ab", "c"):
        await ctx.get(length, text)
    assert ctx.analyses.counts == {"computed": 2, "hit": 2}


async def test_order_of_options_does_not_matter() -> None:
    computed: list[str] = []

    @apass.analysis
    def Slice(func: str, *, first: int, last: int) -> str:
        computed.append(func)
        return func[first:last]

    ctx = PassContext()
    assert await ctx.get(Slice, "abcd", first=1, last=3) == await ctx.get(Slice, "abcd", last=3, first=1) == "bc"
    assert computed == ["abcd"]


async def test_analysis_with_context_parameter_takes_options() -> None:
    length, _ = length_analysis()

    @apass.analysis
    async def IsLong(func: str, ctx: PassContext, limit: int = 3) -> bool:
        return await ctx.get(length, func) > limit

    ctx = PassContext()
    assert [await ctx.get(IsLong, "abc"), await ctx.get(IsLong, "abc", limit=2)] == [False, True]


async def test_parameter_with_default_is_option() -> None:
    @apass.analysis
    def Repeated(func: str, times: int = 2) -> str:
        return func * times

    ctx = PassContext()
    assert [await ctx.get(Repeated, "ab"), await ctx.get(Repeated, "ab", times=1)] == ["abab", "ab"]


class Printed:
    """An object that defines its fingerprint and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __fingerprint__(self) -> str:
        self.calls += 1
        return "the same"


async def test_fingerprint_of_object_is_computed_once() -> None:
    @apass.analysis
    def Nothing(func: Printed) -> int:
        return 0

    ctx, func = PassContext(), Printed()
    for _ in range(3):
        await ctx.get(Nothing, func)
    assert func.calls == 1


class Limit:
    """An option value that supports weak references."""


async def test_evicted_result_releases_its_options() -> None:
    @apass.analysis
    def Within(func: str, *, limit: Limit) -> bool:
        return True

    ctx = PassContext()
    ctx.analyses._limit = 1  # pyright: ignore[reportPrivateUsage]
    limit = Limit()
    limit_ref = weakref.ref(limit)
    await ctx.get(Within, "f", limit=limit)
    del limit
    gc.collect()
    assert limit_ref() is not None
    await ctx.get(Within, "f", limit=Limit())
    gc.collect()
    assert limit_ref() is None


async def test_failed_analysis_is_not_part_of_cycle() -> None:
    failures = [True]

    @apass.analysis
    async def Flaky(func: str) -> int:
        if failures:
            failures.clear()
            raise ValueError("no answer")
        return 1

    @apass.analysis
    async def More(func: str, ctx: PassContext) -> int:
        return await ctx.get(Flaky, func) + 1

    # The same task: the failed computation must not stay on its stack of requests.
    ctx = PassContext()
    with pytest.raises(ValueError, match="no answer"):
        await ctx.get(Flaky, "f")
    assert await ctx.get(More, "f") == 2


async def test_finished_request_is_not_part_of_cycle() -> None:
    analyses: dict[str, apass.Analysis[int]] = {}
    failures = [True]

    @apass.analysis
    async def First(func: str, ctx: PassContext) -> int:
        return await ctx.get(analyses["Second"], func) if failures else 1

    @apass.analysis
    async def Second(func: str, ctx: PassContext) -> int:
        if failures:
            failures.clear()
            raise ValueError("no answer")
        return await ctx.get(First, func) + 1

    analyses["Second"] = Second
    ctx = PassContext()
    with pytest.raises(ValueError, match="no answer"):
        await ctx.get(First, "f")
    assert await ctx.get(Second, "f") == 2


async def test_result_that_json_changes_raises() -> None:
    class Level(enum.IntEnum):
        LOW = 1

    @apass.analysis(persistent=True)
    def LevelOf(func: str) -> Level:
        return Level.LOW

    @apass.analysis(persistent=True)
    def Ratio(func: str) -> float:
        return math.nan

    store = MemoryStore()
    async with PassContext(store=store) as ctx:
        with pytest.raises(apass.errors.AnalysisError, match="JSON does not preserve"):
            await ctx.get(LevelOf, "f")
        await ctx.get(Ratio, "f")
    async with PassContext(store=store) as ctx:
        assert math.isnan(await ctx.get(Ratio, "f"))
    assert ctx.analyses.counts == {"stored": 1}


def test_dumps_without_loads_raises() -> None:
    declare: Any = apass.analysis
    for options in ({"dumps": bytes}, {"loads": str}):
        with pytest.raises(apass.errors.PassDefinitionError, match="both dumps and loads, or neither"):
            declare(persistent=True, **options)


async def test_stored_results_depend_on_options_and_version() -> None:
    def times(func: str, *, factor: int = 1) -> int:
        return len(func) * factor

    store = MemoryStore()
    first = apass.analysis(name="Times", version="1", persistent=True)(times)
    for analysis, options, counts in (
        (first, {}, {"computed": 1}),
        (first, {"factor": 2}, {"computed": 1}),
        (first, {"factor": 2}, {"stored": 1}),
        (apass.analysis(name="Times", version="2", persistent=True)(times), {}, {"computed": 1}),
        (apass.analysis(name="OtherName", version="1", persistent=True)(times), {}, {"computed": 1}),
        (apass.analysis(name="Times", version="1", persistent=True)(times), {}, {"stored": 1}),
    ):
        async with PassContext(store=store) as ctx:
            assert await ctx.get(analysis, "ab", **options) == 2 * options.get("factor", 1)
        assert ctx.analyses.counts == counts
