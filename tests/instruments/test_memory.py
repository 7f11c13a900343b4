"""`PassMemoryInstrument`: memory is counted for the pass that takes it, for many modules at once too."""

import tracemalloc

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.instruments import PassMemoryInstrument, PassTimingInstrument, timings_by_pass
from tests.instruments.crowd import crowd, run_crowd

Module = dict[str, bytes]
MIB = 2**20


@apass.module_pass(opt_level=0)
async def Grow(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    made = {**mod, f"g{len(mod)}": bytes(4 * MIB)}
    await anyio.lowlevel.checkpoint()
    return made


@apass.module_pass(opt_level=0)
async def Waste(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    assert len(bytes(8 * MIB)) == 8 * MIB
    await anyio.lowlevel.checkpoint()
    return mod


@apass.module_pass(opt_level=0)
async def Idle(mod: Module, ctx: apass.PassContext) -> Module:
    for _ in range(4):
        await anyio.lowlevel.checkpoint()
    return mod


@apass.module_pass(opt_level=0)
async def Fail(mod: Module, ctx: apass.PassContext) -> Module:
    assert len(bytes(2 * MIB)) == 2 * MIB
    raise ValueError("no")


@pytest.mark.anyio
async def test_each_pass_is_told_apart_from_those_that_run_meanwhile() -> None:
    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all({"a": {}, "b": {"f": b""}}, apass.Sequential([Grow, Waste, Idle, Grow]))
    found = {one.name: (one.calls, round(one.grown / MIB), round(one.peak / MIB)) for one in memory.profile()}
    assert found == {"sequential": (2, 16, 12), "Grow": (4, 16, 4), "Waste": (2, 0, 8), "Idle": (2, 0, 0)}
    assert not tracemalloc.is_tracing()


@pytest.mark.anyio
async def test_a_pass_that_fails_is_measured_and_the_table_shows_the_highest_peak_first() -> None:
    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all({"a": {}}, Fail, errors="collect")
        await apass.optimize_all({"b": {}}, Waste)
    lines = memory.render().splitlines()
    assert [line.split()[-4:] for line in lines[1:]] == [
        ["Waste", "(peak", "in", "'b')"],
        ["Fail", "(peak", "in", "'a')"],
    ]
    assert lines[0].split() == ["peak", "MiB", "grown", "MiB", "calls", "pass"]
    memory.reset()
    assert memory.render() == "no pass was measured"


@pytest.mark.anyio
async def test_the_table_says_so_where_modules_were_at_work_at_once() -> None:
    memory = PassMemoryInstrument()
    met = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Meet(mod: Module, ctx: apass.PassContext) -> Module:
        await met.wait() if "first" in mod else met.set()
        return mod

    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all([{"first": b""}, {}], apass.Sequential([Meet, Idle]), limit=2)
        assert not memory.is_exact
        note = memory.render().splitlines()[-1]
        assert note.startswith("several modules were at work at once, ")
        memory.reset()
        await apass.optimize_all([{}, {}], apass.Sequential([Meet, Idle]), limit=1)
        assert memory.is_exact
        assert "at once" not in memory.render()


@pytest.mark.anyio
async def test_tracing_that_was_on_before_stays_on() -> None:
    tracemalloc.start()
    try:
        async with apass.PassContext(instruments=[PassMemoryInstrument()]):
            await Idle({})
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


@pytest.mark.anyio
async def test_two_hundred_modules_at_once_are_all_counted() -> None:
    memory, timer = PassMemoryInstrument(), PassTimingInstrument()
    await run_crowd([memory, timer], limit=None)
    calls = {one.name: one.calls for one in timings_by_pass(timer.profile())}
    assert {one.name: one.calls for one in memory.profile()} == calls
    assert calls["sequential"] == calls["tuning"] == len(crowd())


@pytest.mark.anyio
async def test_a_context_within_another_does_not_end_the_measuring() -> None:
    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        async with apass.PassContext(instruments=[memory]):
            pass
        assert tracemalloc.is_tracing()
        await Grow({})
    assert [(one.name, round(one.grown / MIB)) for one in memory.profile()] == [("Grow", 4)]
    assert not tracemalloc.is_tracing()


@pytest.mark.anyio
async def test_the_module_of_the_highest_peak_is_named() -> None:
    @apass.module_pass(opt_level=0)
    def Copy(mod: Module, ctx: apass.PassContext) -> Module:
        return {"f": bytes(len(mod["f"]))}

    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all(
            {name: {"f": bytes(size * MIB)} for name, size in (("a", 1), ("b", 3), ("c", 2))}, Copy
        )
    assert [(one.module, round(one.peak / MIB)) for one in memory.profile()] == [("b", 3)]
