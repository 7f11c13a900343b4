"""What results of analyses are known by, how long they are kept, and what waits for what."""

import enum
import gc
import math
import weakref
from typing import Any

import pytest

import apass
from apass import PassContext
from apass.stores import MemoryStore
from tests.helpers.analyses import counted

pytestmark = pytest.mark.anyio


async def test_what_is_kept_is_counted_as_a_hit() -> None:
    length, _ = counted()
    ctx = PassContext()
    for text in ("ab", "ab", "ab", "c"):
        await ctx.get(length, text)
    assert ctx.analyses.counts == {"computed": 2, "hit": 2}


async def test_the_order_in_which_options_are_given_does_not_matter() -> None:
    seen: list[str] = []

    @apass.analysis
    def Slice(func: str, *, first: int, last: int) -> str:
        seen.append(func)
        return func[first:last]

    ctx = PassContext()
    assert await ctx.get(Slice, "abcd", first=1, last=3) == await ctx.get(Slice, "abcd", last=3, first=1) == "bc"
    assert seen == ["abcd"]


async def test_an_analysis_that_takes_the_context_has_its_options_too() -> None:
    length, _ = counted()

    @apass.analysis
    async def IsLong(func: str, ctx: PassContext, limit: int = 3) -> bool:
        return await ctx.get(length, func) > limit

    ctx = PassContext()
    assert [await ctx.get(IsLong, "abc"), await ctx.get(IsLong, "abc", limit=2)] == [False, True]


async def test_a_parameter_with_a_default_is_an_option_and_not_the_context() -> None:
    @apass.analysis
    def Repeated(func: str, times: int = 2) -> str:
        return func * times

    ctx = PassContext()
    assert [await ctx.get(Repeated, "ab"), await ctx.get(Repeated, "ab", times=1)] == ["abab", "ab"]


class Printed:
    """What has a fingerprint of its own, and counts who asks for it."""

    def __init__(self) -> None:
        self.asked = 0

    def __fingerprint__(self) -> str:
        self.asked += 1
        return "the same"


async def test_the_fingerprint_of_an_object_is_taken_once() -> None:
    @apass.analysis
    def Nothing(func: Printed) -> int:
        return 0

    ctx, func = PassContext(), Printed()
    for _ in range(3):
        await ctx.get(Nothing, func)
    assert func.asked == 1


class Limit:
    """An option that can be referred to weakly."""


async def test_what_had_to_make_room_holds_nothing() -> None:
    @apass.analysis
    def Within(func: str, *, limit: Limit) -> bool:
        return True

    ctx = PassContext()
    ctx.analyses._limit = 1  # pyright: ignore[reportPrivateUsage]
    limit = Limit()
    gone = weakref.ref(limit)
    await ctx.get(Within, "f", limit=limit)
    del limit
    gc.collect()
    assert gone() is not None
    await ctx.get(Within, "f", limit=Limit())
    gc.collect()
    assert gone() is None


async def test_an_analysis_that_failed_is_no_part_of_a_circle_afterwards() -> None:
    fails = [True]

    @apass.analysis
    async def Flaky(func: str) -> int:
        if fails:
            fails.clear()
            raise ValueError("no answer")
        return 1

    @apass.analysis
    async def More(func: str, ctx: PassContext) -> int:
        return await ctx.get(Flaky, func) + 1

    # In the same task: what was at work there is not any more.
    ctx = PassContext()
    with pytest.raises(ValueError, match="no answer"):
        await ctx.get(Flaky, "f")
    assert await ctx.get(More, "f") == 2


async def test_a_wait_that_is_over_is_no_part_of_a_circle() -> None:
    found: dict[str, apass.Analysis[int]] = {}
    fails = [True]

    @apass.analysis
    async def First(func: str, ctx: PassContext) -> int:
        return await ctx.get(found["Second"], func) if fails else 1

    @apass.analysis
    async def Second(func: str, ctx: PassContext) -> int:
        if fails:
            fails.clear()
            raise ValueError("no answer")
        return await ctx.get(First, func) + 1

    found["Second"] = Second
    ctx = PassContext()
    with pytest.raises(ValueError, match="no answer"):
        await ctx.get(First, "f")
    assert await ctx.get(Second, "f") == 2


async def test_a_result_of_other_types_than_json_has_is_not_kept_as_one_of_them() -> None:
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
        with pytest.raises(apass.AnalysisError, match="would not come back from JSON as it is"):
            await ctx.get(LevelOf, "f")
        await ctx.get(Ratio, "f")
    async with PassContext(store=store) as ctx:
        assert math.isnan(await ctx.get(Ratio, "f"))
    assert ctx.analyses.counts == {"stored": 1}


def test_dumps_without_loads_is_an_error() -> None:
    make: Any = apass.analysis
    for given in ({"dumps": bytes}, {"loads": str}):
        with pytest.raises(apass.PassDefinitionError, match="both dumps and loads, or neither"):
            make(persistent=True, **given)


async def test_options_and_versions_tell_results_in_a_store_apart() -> None:
    def times(func: str, *, factor: int = 1) -> int:
        return len(func) * factor

    store = MemoryStore()
    first = apass.analysis(name="Times", version="1", persistent=True)(times)
    for asked, options, counts in (
        (first, {}, {"computed": 1}),
        (first, {"factor": 2}, {"computed": 1}),
        (first, {"factor": 2}, {"stored": 1}),
        (apass.analysis(name="Times", version="2", persistent=True)(times), {}, {"computed": 1}),
        (apass.analysis(name="Others", version="1", persistent=True)(times), {}, {"computed": 1}),
        (apass.analysis(name="Times", version="1", persistent=True)(times), {}, {"stored": 1}),
    ):
        async with PassContext(store=store) as ctx:
            assert await ctx.get(asked, "ab", **options) == 2 * options.get("factor", 1)
        assert ctx.analyses.counts == counts
