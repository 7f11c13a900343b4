"""What `optimize_stream` says where it is not used as `async with ... as outcomes: async for ...`."""

from typing import Any

import pytest

from apass import PassContext, PassContextError, module_pass, optimize_all, optimize_stream

pytestmark = pytest.mark.anyio

Module = dict[str, int]

MODULES: list[Module] = [{"f": 1}, {"f": 2}]


@module_pass(opt_level=0)
async def Double(mod: Module, ctx: PassContext) -> Module:
    return {"f": 2 * mod["f"]}


async def test_outcomes_are_there_within_the_block_only() -> None:
    stream = optimize_stream(MODULES, Double)
    with pytest.raises(PassContextError, match="only within `async with optimize_stream"):
        await anext(stream)
    async with stream:
        assert (await anext(stream)).error is None
    with pytest.raises(PassContextError, match="only within `async with optimize_stream"):
        await anext(stream)


async def test_a_stream_is_entered_once_as_its_modules_are_gone() -> None:
    stream = optimize_stream(MODULES, Double)
    async with stream as outcomes:
        assert len([one async for one in outcomes]) == 2
    with pytest.raises(PassContextError, match="call optimize_stream again"):
        async with stream:
            raise AssertionError("nothing is there to be given out")


async def test_a_stream_that_is_entered_within_itself_goes_on() -> None:
    async with optimize_stream(MODULES, Double) as outcomes:
        with pytest.raises(PassContextError, match="call optimize_stream again"):
            await outcomes.__aenter__()
        assert sorted([one.name async for one in outcomes]) == [0, 1]


@pytest.mark.parametrize("modules", [3, None, "model.onnx", b"model", Double])
async def test_what_is_no_modules_is_told(modules: Any) -> None:
    with pytest.raises(TypeError, match="modules must be a mapping of them by key, an iterable or an async iterable"):
        await optimize_all(modules, Double)


async def test_modules_may_be_what_gives_them_by_place() -> None:
    class Row:
        def __getitem__(self, place: int) -> Module:
            return MODULES[place]

    row: Any = Row()
    assert await optimize_all(row, Double) == [{"f": 2}, {"f": 4}]
