"""Where each run of a pass stands in its pipeline."""

from typing import Any

import anyio
import pytest

import apass
from apass.numbering import Numbering
from apass.run import current_run

pytestmark = pytest.mark.anyio


@apass.pass_instrument
class Positions:
    """Notes the position of every run, when it begins and when it ends."""

    def __init__(self) -> None:
        self.numbering = Numbering()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        self.begun.append(str(self.numbering.begin(run)))

    def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        self.ended.append(str(self.numbering.position(run)))


async def keep(mod: Any, ctx: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return mod


Keep = apass.module_pass(keep, opt_level=0, name="Keep")


async def nest(func: Any, mod: Any, ctx: Any) -> Any:
    await Keep({"inner": 1})
    return func


Nest = apass.function_pass(nest, opt_level=0, name="Nest")


async def test_positions_are_the_same_however_many_modules_are_at_work() -> None:
    pipeline = apass.Sequential([Keep, Nest, apass.Sequential([Keep, Keep], name="inner")])
    modules = {f"m{index}": {"f": 1, "g": 2} for index in range(20)}
    wanted: set[str] = set()
    for limit in (1, 20):
        positions = Positions()
        async with apass.PassContext(instruments=[positions]):
            await apass.optimize_all(modules, pipeline, limit=limit)
        assert len(set(positions.begun)) == len(positions.begun) == 20 * 8
        assert set(positions.ended) == set(positions.begun)
        assert wanted in (set(), set(positions.begun))
        wanted = set(positions.begun)
    assert sorted(one for one in wanted if one.startswith("m7:")) == [
        "m7: 0:sequential",
        "m7: 0:sequential/0:Keep",
        "m7: 0:sequential/1:Nest",
        "m7: 0:sequential/1:Nest@f/0:Keep",
        "m7: 0:sequential/1:Nest@g/0:Keep",
        "m7: 0:sequential/2:inner",
        "m7: 0:sequential/2:inner/0:Keep",
        "m7: 0:sequential/2:inner/1:Keep",
    ]


async def test_the_outermost_runs_of_one_module_are_counted() -> None:
    positions = Positions()
    async with apass.PassContext(instruments=[positions]):
        await Keep({})
        await Keep({})
    assert positions.begun == ["0:Keep", "1:Keep"]
