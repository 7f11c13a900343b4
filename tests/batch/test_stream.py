"""Errors of `optimize_stream` for incorrect use."""

from typing import Any

import pytest

from apass import PassContext, module_pass, optimize_all, optimize_stream
from apass.errors import PassContextError

pytestmark = pytest.mark.anyio

Module = dict[str, int]

MODULES: list[Module] = [{"f": 1}, {"f": 2}]


@module_pass(opt_level=0)
async def Double(mod: Module, ctx: PassContext) -> Module:
    return {"f": 2 * mod["f"]}


async def test_outcomes_are_available_only_in_the_block() -> None:
    stream = optimize_stream(MODULES, Double)
    with pytest.raises(PassContextError, match="only inside `async with optimize_stream"):
        await anext(stream)
    async with stream:
        assert (await anext(stream)).error is None
    with pytest.raises(PassContextError, match="only inside `async with optimize_stream"):
        await anext(stream)


async def test_stream_can_be_entered_only_once() -> None:
    stream = optimize_stream(MODULES, Double)
    async with stream as outcomes:
        assert len([one async for one in outcomes]) == 2
    with pytest.raises(PassContextError, match="call optimize_stream again"):
        async with stream:
            raise AssertionError("nothing is there to be given out")


async def test_nested_entry_raises_and_outer_stream_continues() -> None:
    async with optimize_stream(MODULES, Double) as outcomes:
        with pytest.raises(PassContextError, match="call optimize_stream again"):
            await outcomes.__aenter__()
        assert sorted([one.name async for one in outcomes]) == [0, 1]


@pytest.mark.parametrize("modules", [3, None, "model.onnx", b"model"])
async def test_invalid_modules_argument_raises(modules: Any) -> None:
    with pytest.raises(TypeError, match="modules must be a mapping, an iterable or an async iterable"):
        await optimize_all(modules, Double)


async def test_modules_can_be_a_getitem_sequence() -> None:
    class Row:
        def __getitem__(self, place: int) -> Module:
            return MODULES[place]

    row: Any = Row()
    assert await optimize_all(row, Double) == [{"f": 2}, {"f": 4}]
