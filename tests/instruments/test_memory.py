"""`PassMemoryInstrument`: attributes memory to passes of concurrent modules."""

import tracemalloc

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.instruments import PassMemoryInstrument, PassTimingInstrument, timings_by_pass
from tests.helpers.crowd import crowd, run_crowd

Module = dict[str, bytes]
MIB = 2**20


@apass.module_pass(opt_level=0)
async def Grow(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    result = {**mod, f"g{len(mod)}": bytes(4 * MIB)}
    await anyio.lowlevel.checkpoint()
    return result


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
async def test_memory_of_concurrent_passes_is_distinguished() -> None:
    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all({"a": {}, "b": {"f": b""}}, apass.Sequential([Grow, Waste, Idle, Grow]))
    memories = {item.name: (item.calls, round(item.grown / MIB), round(item.peak / MIB)) for item in memory.profile()}
    assert memories.pop("(hooks of instruments)") == (16, 0, 0)
    assert memories == {"sequential": (2, 16, 12), "Grow": (4, 16, 4), "Waste": (2, 0, 8), "Idle": (2, 0, 0)}
    assert not tracemalloc.is_tracing()


@pytest.mark.anyio
async def test_table_includes_failed_passes_highest_peak_first() -> None:
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
async def test_table_notes_inexact_numbers_of_concurrent_modules() -> None:
    memory = PassMemoryInstrument()
    second_runs = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Meet(mod: Module, ctx: apass.PassContext) -> Module:
        await second_runs.wait() if "first" in mod else second_runs.set()
        return mod

    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all([{"first": b""}, {}], apass.Sequential([Meet, Idle]), limit=2)
        assert not memory.is_exact
        note = memory.render().splitlines()[-1]
        assert note.startswith("several modules ran at once, ")
        memory.reset()
        await apass.optimize_all([{}, {}], apass.Sequential([Meet, Idle]), limit=1)
        assert memory.is_exact
        assert "at once" not in memory.render()


@pytest.mark.anyio
async def test_tracing_stays_active_if_it_was() -> None:
    tracemalloc.start()
    try:
        async with apass.PassContext(instruments=[PassMemoryInstrument()]):
            await Idle({})
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.anyio
async def test_every_call_of_concurrent_modules_is_counted() -> None:
    memory, timer = PassMemoryInstrument(), PassTimingInstrument()
    await run_crowd([memory, timer], limit=None)
    calls = {item.name: item.calls for item in timings_by_pass(timer.profile())}
    counted = {item.name: item.calls for item in memory.profile()}
    assert counted.pop("(hooks of instruments)") > 0
    assert counted == calls
    assert calls["sequential"] == calls["tuning"] == len(crowd())


@pytest.mark.anyio
async def test_nested_context_does_not_stop_tracing() -> None:
    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        async with apass.PassContext(instruments=[memory]):
            pass
        assert tracemalloc.is_tracing()
        await Grow({})
    assert [(item.name, round(item.grown / MIB)) for item in memory.profile()] == [("Grow", 4)]
    assert not tracemalloc.is_tracing()


@pytest.mark.anyio
async def test_module_of_the_highest_peak_is_named() -> None:
    @apass.module_pass(opt_level=0)
    def Copy(mod: Module, ctx: apass.PassContext) -> Module:
        return {"f": bytes(len(mod["f"]))}

    memory = PassMemoryInstrument()
    async with apass.PassContext(instruments=[memory]):
        await apass.optimize_all(
            {name: {"f": bytes(size * MIB)} for name, size in (("a", 1), ("b", 3), ("c", 2))}, Copy
        )
    assert [(item.module, round(item.peak / MIB)) for item in memory.profile()] == [("b", 3)]


@apass.pass_instrument
class Keeper:
    """Instrument that keeps 4 MiB at the start and at the end of each pass."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []

    def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
        self.kept.append(bytes(4 * MIB))

    def run_after_pass(self, mod: Module, info: apass.PassInfo) -> None:
        self.kept.append(bytes(4 * MIB))


@pytest.mark.anyio
async def test_memory_of_other_instruments_is_separate() -> None:
    memory, keeper = PassMemoryInstrument(), Keeper()
    async with apass.PassContext(instruments=[memory, keeper]):
        await apass.Sequential([Idle, Grow])({"f": b""})
    memories = {item.name: round(item.grown / MIB) for item in memory.profile()}
    assert memories == {"(hooks of instruments)": 16, "sequential": 4, "Grow": 4, "Idle": 0}
