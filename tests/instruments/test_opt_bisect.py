"""`BisectInstrument`: numbering of passes, independent of concurrency."""

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


async def steps(mod: Module, **arguments: Any) -> tuple[list[str], Module]:
    """Return the messages and positions of numbered passes, and the new module."""
    numbered_steps: list[BisectStep] = []
    async with apass.PassContext(instruments=[BisectInstrument(**arguments, report=numbered_steps.append)]):
        outcomes = await apass.optimize_all({"m": mod}, PIPELINE)
    return [f"{step} at {step.position.text}" for step in numbered_steps], outcomes["m"]


async def test_only_passes_in_sequence_are_numbered() -> None:
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


async def test_limit_and_intervals_select_the_passes_that_run() -> None:
    lines, mod = await steps({"f": 0}, limit=3)
    assert ([line.split(" pass")[0] for line in lines], mod) == (
        # With the limit, the first round of the Repeat changes nothing, so it is the last round.
        ["BISECT: running"] * 3 + ["BISECT: NOT running"] * 5,
        {"f": 2},
    )
    lines, mod = await steps({"f": 0}, intervals=[(1, 1), (8, 9)])
    assert [line.split(")")[0] for line in lines if "NOT" not in line] == ["BISECT: running pass (1"]
    assert mod == {"f": 1}
    assert (await steps({"f": 0}, limit=0))[1] == {"f": 0}


async def test_required_passes_run_without_a_number() -> None:
    messages: list[str] = []
    instrument = BisectInstrument(0, report=lambda step: messages.append(f"{step} at {step.position.text}"))
    async with apass.PassContext(required_pass=["add_one"], instruments=[instrument]):
        assert await apass.Sequential([add_one, Nest])({"f": 1}) == {"f": 2}
    assert messages == ["BISECT: NOT running pass (1) Nest at 0:sequential/1:Nest"]


async def test_unnamed_modules_are_numbered_per_outermost_pass() -> None:
    messages: list[str] = []
    instrument = BisectInstrument(1, report=lambda step: messages.append(str(step)))
    results: list[Module] = []

    async def optimize() -> None:
        results.append(await apass.Sequential([add_one, add_one])({"f": 1}))

    async with apass.PassContext(instruments=[instrument]), anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(optimize)
    assert results == [{"f": 2}] * 3
    assert sorted(messages) == ["BISECT: NOT running pass (2) add_one"] * 3 + ["BISECT: running pass (1) add_one"] * 3


def yielding_pipeline(seed: int) -> apass.Pass[Any]:
    """Return a pipeline whose passes yield and call passes in function bodies."""
    dice = random.Random(seed)

    def make_pass(index: int) -> apass.Pass[Any]:
        async def body(func: int, mod: Module, ctx: apass.PassContext) -> int:
            for _ in range((func * 7 + index) % 4):
                await anyio.lowlevel.checkpoint()
            inner: Module = await add_one({"f": func})
            return int(inner["f"]) * (index + 2) % 1009

        pass_: apass.Pass[Any] = apass.function_pass(body, opt_level=0, name=f"P{index}")
        return pass_

    passes = [make_pass(index) for index in range(8)]
    dice.shuffle(passes)
    return apass.Sequential([*passes[:3], apass.Sequential(passes[3:6], name="inner"), *passes[6:]])


async def numbered(modules: dict[str, Module], limit: int, at_once: int) -> tuple[dict[str, list[str]], Any]:
    """Return the steps of each module in order, and the resulting modules."""
    messages: dict[str, list[str]] = {name: [] for name in modules}

    def report(step: BisectStep) -> None:
        assert step.position.module is not None
        messages[step.position.module].append(f"{step} at {step.position.text}")

    async with apass.PassContext(instruments=[BisectInstrument(limit, report=report)]):
        return messages, await apass.optimize_all(modules, yielding_pipeline(7), limit=at_once)


async def test_concurrent_modules_are_numbered_like_single_modules() -> None:
    dice = random.Random(11)
    modules = {
        f"m{index}": {f"f{n}": dice.randrange(1000) for n in range(dice.randrange(1, 4))} for index in range(200)
    }
    one_by_one = await numbered(modules, 5, 1)
    assert await numbered(modules, 5, 200) == one_by_one
    assert [len(lines) for lines in one_by_one[0].values()] == [8] * 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs either a limit or intervals"),
        ({"limit": 1, "intervals": [(1, 2)]}, "needs either a limit or intervals"),
        ({"limit": -2}, "limit must be an int of at least 0, or -1 for all passes, got -2"),
        ({"limit": True}, "limit must be an int"),
        ({"intervals": [(2, 1)]}, "an interval must be first-last with 1 <= first <= last, got 2-1"),
    ],
)
async def test_invalid_limits_raise_value_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BisectInstrument(**arguments)


@pytest.mark.parametrize("text", ["", "a", "1-", "3-2", "0", "1,,2", "1;2"])
async def test_invalid_intervals_raise_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"interval"):
        parse_intervals(text)


async def test_intervals_are_parsed_with_spaces() -> None:
    intervals: Sequence[tuple[int, int]] = parse_intervals(" 3-7, 9")
    assert intervals == ((3, 7), (9, 9))
