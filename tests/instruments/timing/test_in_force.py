"""`PassTimingInstrument`: temporary, repeated and nested installation."""

import gc

import pytest

import apass
from apass.instruments import PassTiming, PassTimingInstrument
from tests.helpers.timings import (
    CallPlain,
    Fail,
    Module,
    Plain,
    Suspend,
    check_times,
    leaf,
    on_each,
    shapes,
    tree,
)

INFO = apass.PassInfo(opt_level=0, name="ByHand")


@pytest.mark.anyio
async def test_skipped_pass_has_no_timing() -> None:
    @apass.pass_instrument
    class Skip:
        def should_run(self, mod: Module, info: apass.PassInfo) -> bool:
            return info.name != "CallPlain"

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument, Skip()]):
        await apass.Sequential([CallPlain, Plain])({"f": 1})
    assert shapes(instrument.profile()) == [tree("sequential", [leaf("Plain")])]


@pytest.mark.anyio
async def test_nested_contexts_share_an_instrument() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def Inner(mod: Module, ctx: apass.PassContext) -> Module:
        async with apass.PassContext(instruments=[instrument]):
            return await Plain(mod)

    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: apass.PassContext) -> Module:
        async with apass.PassContext():
            return await Inner(mod)

    async with apass.PassContext(instruments=[instrument]):
        await Outer({"f": 1})
        await Inner({"f": 1})
    plain = [leaf("Plain")]
    assert shapes(instrument.profile()) == [tree("Outer", plain), tree("Inner", plain)]
    check_times(instrument.profile())


@pytest.mark.anyio
async def test_two_instruments_are_independent() -> None:
    outer, inner = PassTimingInstrument(), PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def Both(mod: Module, ctx: apass.PassContext) -> Module:
        async with apass.PassContext(instruments=[inner, outer]):
            return await CallPlain(mod)

    async with apass.PassContext(instruments=[outer]):
        await Both({"f": 1})
    called = tree("CallPlain", [leaf("Suspend"), leaf("Plain")])
    assert shapes(outer.profile()) == [tree("Both", [called])]
    assert shapes(inner.profile()) == [called]
    check_times([*outer.profile(), *inner.profile()])


@pytest.mark.anyio
async def test_pass_is_unfinished_when_instrument_is_removed() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def TakeOut(mod: Module, ctx: apass.PassContext) -> Module:
        await Plain(mod)
        await ctx.override_instruments([])
        return await Plain(mod)

    ctx = apass.PassContext(instruments=[instrument])
    async with ctx:
        for _ in range(2):
            await ctx.override_instruments([instrument])
            await TakeOut({"f": 1})
        await ctx.override_instruments([instrument])
        await Suspend({"f": 1})
    unfinished = tree("TakeOut", [leaf("Plain", calls=2)], calls=0, unfinished=2)
    assert shapes(instrument.profile()) == [unfinished, leaf("Suspend")]


@pytest.mark.anyio
async def test_failed_pass_is_counted_after_removal() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def TakeOut(mod: Module, ctx: apass.PassContext) -> Module:
        await ctx.override_instruments([])
        return await Fail(mod)

    async with apass.PassContext(instruments=[instrument]):
        with pytest.raises(ValueError, match="no"):
            await TakeOut({"f": 1})
    assert shapes(instrument.profile()) == [leaf("TakeOut", failed=1)]


@pytest.mark.anyio
async def test_installed_instrument_times_only_later_passes() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def PutIn(mod: Module, ctx: apass.PassContext) -> Module:
        await Plain(mod)
        await ctx.override_instruments([instrument])
        return await CallPlain(mod)

    async with apass.PassContext():
        await apass.Sequential([PutIn, Plain])({"f": 1})
    assert shapes(instrument.profile()) == [tree("CallPlain", [leaf("Suspend"), leaf("Plain")]), leaf("Plain")]
    check_times(instrument.profile())


@pytest.mark.anyio
async def test_enclosing_pass_is_timed_across_a_removal() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def Swap(mod: Module, ctx: apass.PassContext) -> Module:
        await ctx.override_instruments([])
        await Plain(mod)
        await ctx.override_instruments([instrument])
        return await Suspend(mod)

    async with apass.PassContext(instruments=[instrument]):
        await Swap({"f": 1})
    assert shapes(instrument.profile()) == [tree("Swap", [leaf("Suspend")])]
    check_times(instrument.profile())


@pytest.mark.anyio
async def test_reset_discards_finished_and_open_calls() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def Reset(mod: Module, ctx: apass.PassContext) -> Module:
        instrument.reset()
        return await Plain(mod)

    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential([Plain, Reset])({"f": 1})
        assert instrument.profile() == ()
        await Suspend({"f": 1})
    assert shapes(instrument.profile()) == [leaf("Suspend")]


@pytest.mark.anyio
async def test_profile_is_available_while_passes_run() -> None:
    instrument = PassTimingInstrument()
    read: list[tuple[PassTiming, ...]] = []

    @apass.module_pass(opt_level=0)
    def Read(mod: Module, ctx: apass.PassContext) -> Module:
        read.append(instrument.profile())
        return mod

    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential([Plain, Read])({"f": 1})
    begun = [leaf("Plain"), leaf("Read", calls=0, unfinished=1)]
    assert shapes(read[0]) == [tree("sequential", begun, calls=0, unfinished=1)]


def test_hooks_called_outside_of_a_run_are_timed() -> None:
    instrument = PassTimingInstrument()
    instrument.run_before_pass({}, INFO)
    instrument.run_after_pass({}, INFO)
    instrument.run_after_pass({}, INFO)
    assert shapes(instrument.profile()) == [leaf("ByHand")]


@pytest.mark.anyio
async def test_ended_calls_are_released_from_memory() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def TakeOut(mod: Module, ctx: apass.PassContext) -> Module:
        await ctx.override_instruments([])
        return mod

    def held() -> int:
        gc.collect()
        return sum(type(item) is apass.Run for item in gc.get_objects())

    async def some(ctx: apass.PassContext) -> None:
        for _ in range(20):
            await ctx.override_instruments([instrument])
            await on_each({"a": {"f": 1}, "b": {"f": 1}}, apass.Sequential([CallPlain, Fail]))
            await TakeOut({"f": 1})

    before = held()
    ctx = apass.PassContext()
    async with ctx:
        await some(ctx)
        after_some = held()
        await some(ctx)
        assert held() == after_some
        await ctx.override_instruments([instrument])
        await Plain({"f": 1})
        assert held() == before
