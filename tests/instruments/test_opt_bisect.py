"""`BisectInstrument`: the same pass has the same number, whatever else is at work."""

import random
from collections.abc import Sequence
from typing import Any

import anyio.lowlevel
import pytest

import apass
from apass.instruments import BisectInstrument, BisectStep, parse_intervals
from tests.helpers.failing_passes import Nest, add_one

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

PIPELINE: apass.Pass[Any] = apass.Sequential(
    [
        add_one,
        apass.Sequential([Nest, add_one], name="inner"),
        apass.If(lambda mod: mod["f"] % 2, [add_one], otherwise=[add_one, add_one]),
        apass.Repeat([add_one], times=2),
        apass.Race([add_one, Nest], key=lambda mod: -mod["f"]),
        add_one,
    ]
)


async def steps(mod: Module, **given: Any) -> tuple[list[str], Module]:
    """Return the line and the position of each pass that was numbered, and the module."""
    found: list[BisectStep] = []
    async with apass.PassContext(instruments=[BisectInstrument(**given, report=found.append)]):
        outcomes = await apass.optimize_all({"m": mod}, PIPELINE)
    return [f"{one} at {one.position.text}" for one in found], outcomes["m"]


async def test_passes_in_a_row_are_numbered_and_not_what_runs_within_them() -> None:
    assert await steps({"f": 0}, limit=-1) == (
        [
            "BISECT: running pass (1) add_one on m at 0:sequential/0:add_one",
            "BISECT: running pass (2) Nest on m at 0:sequential/1:inner/0:Nest",
            "BISECT: running pass (3) add_one on m at 0:sequential/1:inner/1:add_one",
            "BISECT: running pass (4) add_one on m at 0:sequential/2:If@otherwise/0:add_one",
            "BISECT: running pass (5) add_one on m at 0:sequential/2:If@otherwise/1:add_one",
            "BISECT: running pass (6) add_one on m at 0:sequential/3:Repeat/0:add_one",
            "BISECT: running pass (7) add_one on m at 0:sequential/3:Repeat/1:add_one",
            "BISECT: running pass (8) Race on m at 0:sequential/4:Race",
            "BISECT: running pass (9) add_one on m at 0:sequential/5:add_one",
        ],
        {"f": 8},
    )


async def test_a_limit_stops_after_so_many_and_intervals_run_those_named() -> None:
    lines, mod = await steps({"f": 0}, limit=3)
    assert ([line.split(" pass")[0] for line in lines], mod) == (
        # The first round of the Repeat changes nothing any more, and is the last.
        ["BISECT: running"] * 3 + ["BISECT: NOT running"] * 5,
        {"f": 2},
    )
    lines, mod = await steps({"f": 0}, intervals=[(1, 1), (8, 9)])
    assert [line.split(")")[0] for line in lines if "NOT" not in line] == ["BISECT: running pass (1"]
    assert mod == {"f": 1}
    assert (await steps({"f": 0}, limit=0))[1] == {"f": 0}


async def test_passes_that_the_context_requires_run_and_have_no_number() -> None:
    found: list[str] = []
    instrument = BisectInstrument(0, report=lambda step: found.append(f"{step} at {step.position.text}"))
    async with apass.PassContext(required_pass=["add_one"], instruments=[instrument]):
        assert await apass.Sequential([add_one, Nest])({"f": 1}) == {"f": 2}
    assert found == ["BISECT: NOT running pass (1) Nest at 0:sequential/1:Nest"]


async def test_modules_without_names_are_numbered_by_their_outermost_pass() -> None:
    found: list[str] = []
    instrument = BisectInstrument(1, report=lambda step: found.append(str(step)))
    results: list[Module] = []

    async def optimize() -> None:
        results.append(await apass.Sequential([add_one, add_one])({"f": 1}))

    async with apass.PassContext(instruments=[instrument]), anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(optimize)
    assert results == [{"f": 2}] * 3
    assert sorted(found) == ["BISECT: NOT running pass (2) add_one"] * 3 + ["BISECT: running pass (1) add_one"] * 3


def walking(seed: int) -> apass.Pass[Any]:
    """Return a pipeline whose passes wait for some rounds of the loop, and call passes in the bodies of functions."""
    dice = random.Random(seed)

    def one(place: int) -> apass.Pass[Any]:
        async def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
            for _ in range((func * 7 + place) % 4):
                await anyio.lowlevel.checkpoint()
            inner: Module = await add_one({"f": func})
            return int(inner["f"]) * (place + 2) % 1009

        made: apass.Pass[Any] = apass.function_pass(body, opt_level=0, name=f"P{place}")
        return made

    passes = [one(place) for place in range(8)]
    dice.shuffle(passes)
    return apass.Sequential([*passes[:3], apass.Sequential(passes[3:6], name="inner"), *passes[6:]])


async def numbered(modules: dict[str, Module], limit: int, at_once: int) -> tuple[dict[str, list[str]], Any]:
    """Return the steps of each module in order, and the modules."""
    found: dict[str, list[str]] = {name: [] for name in modules}

    def report(step: BisectStep) -> None:
        assert step.position.module is not None
        found[step.position.module].append(f"{step} at {step.position.text}")

    async with apass.PassContext(instruments=[BisectInstrument(limit, report=report)]):
        return found, await apass.optimize_all(modules, walking(7), limit=at_once)


async def test_two_hundred_modules_at_once_have_the_numbers_and_results_that_they_have_one_by_one() -> None:
    dice = random.Random(11)
    modules = {
        f"m{index}": {f"f{n}": dice.randrange(1000) for n in range(dice.randrange(1, 4))} for index in range(200)
    }
    one_by_one = await numbered(modules, 5, 1)
    assert await numbered(modules, 5, 200) == one_by_one
    assert [len(lines) for lines in one_by_one[0].values()] == [8] * 200


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "takes either a limit or intervals"),
        ({"limit": 1, "intervals": [(1, 2)]}, "takes either a limit or intervals"),
        ({"limit": -2}, "limit must be an int of at least 0, or -1 for all; not -2"),
        ({"limit": True}, "limit must be an int"),
        ({"intervals": [(2, 1)]}, "2-1 is no interval of numbers: they count from 1, the lower one first"),
    ],
)
async def test_wrong_limits_are_told(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BisectInstrument(**given)


@pytest.mark.parametrize("text", ["", "a", "1-", "3-2", "0", "1,,2", "1;2"])
async def test_wrong_intervals_are_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"interval"):
        parse_intervals(text)


async def test_intervals_are_read_as_they_are_written() -> None:
    found: Sequence[tuple[int, int]] = parse_intervals(" 3-7, 9")
    assert found == ((3, 7), (9, 9))
