"""Position of each run of a pass in its pipeline."""

from typing import Any

import anyio
import pytest

import apass
from apass import PassContext
from apass.core.position import Position, PositionTracker, in_branch
from apass.core.run import current_run

pytestmark = pytest.mark.anyio


@apass.pass_instrument
class Positions:
    """Records the position of every run at its start and at its end."""

    def __init__(self) -> None:
        self.tracker = PositionTracker()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        self.begun.append(str(self.tracker.begin(run)))

    def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        run = current_run()
        assert run is not None
        self.ended.append(str(self.tracker.position(run)))


async def keep(mod: Any, ctx: Any) -> Any:
    await anyio.lowlevel.checkpoint()
    return mod


Keep = apass.module_pass(keep, opt_level=0, name="Keep")


async def nest(func: Any, mod: Any, ctx: Any) -> Any:
    await Keep({"inner": 1})
    return func


Nest = apass.function_pass(nest, opt_level=0, name="Nest")


async def test_positions_do_not_depend_on_concurrency() -> None:
    pipeline = apass.Sequential([Keep, Nest, apass.Sequential([Keep, Keep], name="inner")])
    modules = {f"m{index}": {"f": 1, "g": 2} for index in range(20)}
    expected: set[str] = set()
    for limit in (1, 20):
        positions = Positions()
        async with apass.PassContext(instruments=[positions]):
            await apass.optimize_all(modules, pipeline, limit=limit)
        assert len(set(positions.begun)) == len(positions.begun) == 20 * 8
        assert set(positions.ended) == set(positions.begun)
        assert expected in (set(), set(positions.begun))
        expected = set(positions.begun)
    assert sorted(position for position in expected if position.startswith("m7:")) == [
        "m7: 0:sequential",
        "m7: 0:sequential/0:Keep",
        "m7: 0:sequential/1:Nest",
        "m7: 0:sequential/1:Nest@f/0:Keep",
        "m7: 0:sequential/1:Nest@g/0:Keep",
        "m7: 0:sequential/2:inner",
        "m7: 0:sequential/2:inner/0:Keep",
        "m7: 0:sequential/2:inner/1:Keep",
    ]


async def test_outermost_runs_of_module_are_numbered() -> None:
    positions = Positions()
    async with apass.PassContext(instruments=[positions]):
        await Keep({})
        await Keep({})
    assert positions.begun == ["0:Keep", "1:Keep"]


async def test_branches_of_if_have_own_positions() -> None:
    choice = apass.If(lambda mod: mod["f"] == 1, [Keep], otherwise=[apass.If(lambda mod: True, [Keep]), Keep])
    positions = Positions()
    async with apass.PassContext(instruments=[positions]):
        await apass.optimize_all({"one": {"f": 1}, "two": {"f": 2}}, apass.Sequential([choice, Keep]))
    assert (
        sorted(positions.begun)
        == sorted(positions.ended)
        == [
            "one: 0:sequential",
            "one: 0:sequential/0:If",
            "one: 0:sequential/0:If/0:Keep",
            "one: 0:sequential/1:Keep",
            "two: 0:sequential",
            "two: 0:sequential/0:If",
            "two: 0:sequential/0:If@otherwise/0:If",
            "two: 0:sequential/0:If@otherwise/0:If/0:Keep",
            "two: 0:sequential/0:If@otherwise/1:Keep",
            "two: 0:sequential/1:Keep",
        ]
    )


@pytest.mark.parametrize("first", [0, 1])
async def test_positions_in_race_do_not_depend_on_speed(first: int) -> None:
    done = anyio.Event()

    def alternative(index: int) -> apass.Pass[Any]:
        async def wait(mod: Any, ctx: Any) -> Any:
            if index != first:
                await done.wait()
            return mod

        async def finish(mod: Any, ctx: Any) -> Any:
            done.set()
            return mod

        return apass.Sequential(
            [apass.module_pass(wait, opt_level=0, name="Wait"), apass.module_pass(finish, opt_level=0, name="Finish")]
        )

    positions = Positions()
    async with apass.PassContext(instruments=[positions]):
        race = apass.Race([apass.If(lambda mod: True, [alternative(index)]) for index in (0, 1)], key=lambda mod: 0)
        await race({})
    assert (
        sorted(positions.begun)
        == sorted(positions.ended)
        == [
            "0:Race",
            "0:Race@1/0:If",
            "0:Race@1/0:If/0:sequential",
            "0:Race@1/0:If/0:sequential/0:Wait",
            "0:Race@1/0:If/0:sequential/1:Finish",
            "0:Race@2/0:If",
            "0:Race@2/0:If/0:sequential",
            "0:Race@2/0:If/0:sequential/0:Wait",
            "0:Race@2/0:If/0:sequential/1:Finish",
        ]
    )


async def test_requirements_in_race_are_numbered_by_alternative(anyio_backend: str) -> None:
    later_name = f"numbering.Later_{anyio_backend}"
    later_may_end = anyio.Event()

    async def later(mod: Any, ctx: Any) -> Any:
        await later_may_end.wait()
        return mod

    async def now(mod: Any, ctx: Any) -> Any:
        later_may_end.set()
        return mod

    apass.register_pass(later_name, apass.module_pass(later, opt_level=0, name=later_name))
    alternatives: list[apass.Pass[Any]] = [
        apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="A", required=[later_name]),
        apass.Sequential([Keep, apass.module_pass(now, opt_level=0, name="Now")]),
    ]
    positions = Positions()
    async with apass.PassContext(instruments=[positions]):
        await apass.Race(alternatives, key=lambda mod: 0)({})
    assert "0:Race@1/1:A" in positions.begun
    assert "0:Race@2/0:sequential/1:Now" in positions.begun


@pytest.mark.parametrize(
    "steps",
    [
        ((0, "A", None),),
        ((0, "onnx/a/b", None), (12, "C", "f/g")),
        ((3, "Tune", "main"), (0, "If", "otherwise"), (1, "Inner", None)),
    ],
)
def test_text_of_position_can_be_parsed(steps: tuple[tuple[int, str, str | None], ...]) -> None:
    position = Position("net", steps)
    assert Position.parse(position.text, "net") == position


@pytest.mark.parametrize("text", ["", "A", "x:A", ":A", "0:", "0:@f", "-1:A", "0:A/1:"])
def test_invalid_position_text_raises(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid position .*; expected a form like 0:sequential/2:Tune@main/0:Inner"):
        Position.parse(text)


async def test_numbering_continues_after_nested_branch() -> None:
    positions = Positions()

    @apass.module_pass(opt_level=0)
    async def Outer(mod: Any, ctx: PassContext) -> Any:
        await Keep(mod)
        with in_branch("one"):
            await Keep(mod)
            with in_branch("two"):
                await Keep(mod)
            await Keep(mod)
        return await Keep(mod)

    async with PassContext(instruments=[positions]):
        await Outer({"f": 1})
    inner = [position.removeprefix("0:Outer") for position in positions.begun[1:]]
    assert inner == ["/0:Keep", "@one/0:Keep", "@two/0:Keep", "@one/1:Keep", "/1:Keep"]


async def test_function_body_has_position_of_its_pass() -> None:
    positions, recorded = Positions(), list[str]()

    @apass.function_pass(opt_level=0)
    def RecordPosition(func: int, mod: Any, ctx: PassContext) -> int:
        run = current_run()
        assert run is not None
        recorded.append(str(positions.tracker.position(run)))
        return func

    async with PassContext(instruments=[positions]):
        await apass.Sequential([Keep, RecordPosition])({"f": 1})
    assert recorded == ["0:sequential/1:RecordPosition"]


async def test_position_includes_runs_started_before_tracker() -> None:
    positions = Positions()

    @apass.module_pass(opt_level=0)
    async def Outer(mod: Any, ctx: PassContext) -> Any:
        async with PassContext(instruments=[positions]):
            return await Keep(mod)

    await apass.Sequential([Outer])({"f": 1})
    assert positions.begun == ["0:sequential/0:Outer/0:Keep"]
