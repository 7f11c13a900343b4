"""What `bisect` takes over from the context that it is called in, and what it says of a single change."""

import warnings
from typing import Any

import pytest

import apass
from apass import PassContext, UnmatchedPassNameWarning
from tests.helpers.recording import function_pass_of, module_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

apass.register_config_option("bisecting.amount", int, default=0)


async def test_options_of_the_context_hold_for_each_try() -> None:
    def add(mod: Module, ctx: PassContext) -> Module:
        return {"f": mod["f"] + ctx.config["bisecting.amount"]}

    pipeline = apass.Sequential([module_pass_of(add, name=f"Add{place}") for place in range(4)])
    async with PassContext(config={"bisecting.amount": 3}):
        found = await apass.bisect({"f": 0}, pipeline, lambda mod: mod["f"] < 7)
    assert (found.number, found.before, found.after) == (3, {"f": 6}, {"f": 9})


async def test_no_more_bodies_are_at_work_at_once_than_the_context_lets() -> None:
    free: set[float | None] = set()

    async def look(func: int, mod: Module, ctx: PassContext) -> int:
        free.add(ctx.max_concurrency)
        return func + 1

    async with PassContext(max_concurrency=3):
        await apass.bisect({"f": 0}, function_pass_of(look, name="Look"), lambda mod: mod["f"] == 0)
    assert free == {3}


async def test_a_name_that_matches_no_pass_is_told_once() -> None:
    pipeline = apass.Sequential([module_pass_of(lambda mod, ctx: {"f": mod["f"] + 1}, name="Add") for _ in range(8)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnmatchedPassNameWarning)
        async with PassContext(disabled_pass=["Nowhere"]):
            await apass.bisect({"f": 0}, pipeline, lambda mod: mod["f"] < 5)
    assert len(caught) == 1


async def test_the_only_function_that_changed_is_named_without_more_checks() -> None:
    async def grow(func: int, mod: Module, ctx: PassContext) -> int:
        return func + 1 if func == 5 else func

    lines: list[str] = []
    mod = {"a": 1000, "b": 5, "c": 2000}
    found = await apass.bisect(mod, function_pass_of(grow, name="Grow"), lambda mod: mod["b"] == 5, report=lines.append)
    assert (found.function, found.alone, found.after) == ("b", True, {"a": 1000, "b": 6, "c": 2000})
    assert lines == ["the untouched module: good", "after all 1 passes: bad"]


async def test_a_try_with_the_first_pass_alone_is_told_as_such() -> None:
    passes = [module_pass_of(lambda mod, ctx: {"f": mod["f"] + 1}, name="Add") for _ in range(2)]
    lines: list[str] = []
    await apass.bisect({"f": 0}, apass.Sequential(passes), lambda mod: mod["f"] < 2, report=lines.append)
    assert lines[2:] == ["after pass 1: good"]
