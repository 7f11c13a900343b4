"""`PassTimingInstrument`: when it is in force only for a while, twice, or in contexts within contexts."""

import gc

import pytest

import apass
from apass.instruments import PassTiming, PassTimingInstrument
from tests.instruments.timing.timings import (
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
async def test_a_pass_that_should_run_keeps_from_running_does_not_appear() -> None:
    @apass.pass_instrument
    class Skip:
        def should_run(self, mod: Module, info: apass.PassInfo) -> bool:
            return info.name != "CallPlain"

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument, Skip()]):
        await apass.Sequential([CallPlain, Plain])({"f": 1})
    assert shapes(instrument.profile()) == [tree("sequential", [leaf("Plain")])]


@pytest.mark.anyio
async def test_one_instrument_serves_nested_contexts_and_skips_those_without_it() -> None:
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
async def test_an_instrument_in_force_twice_counts_once() -> None:
    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument, instrument]):
        await apass.Sequential([Suspend])({"f": 1})
    assert shapes(instrument.profile()) == [tree("sequential", [leaf("Suspend")])]
    check_times(instrument.profile())


@pytest.mark.anyio
async def test_two_instruments_do_not_disturb_one_another() -> None:
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
async def test_taken_out_of_force_during_a_pass_it_shows_the_pass_as_unfinished_and_goes_on_rightly() -> None:
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
async def test_taken_out_of_force_during_a_pass_that_then_fails_it_is_told() -> None:
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
async def test_put_in_force_during_a_pass_it_times_what_begins_from_then_on() -> None:
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
async def test_out_of_force_for_a_while_it_times_the_pass_around_in_full() -> None:
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
async def test_reset_forgets_what_was_measured_and_what_has_begun() -> None:
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
async def test_what_a_pass_has_done_so_far_can_be_read_while_it_runs() -> None:
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


def test_hooks_called_by_hand_outside_of_any_run_make_a_timing_each() -> None:
    instrument = PassTimingInstrument()
    instrument.run_before_pass({}, INFO)
    instrument.run_after_pass({}, INFO)
    instrument.run_after_pass({}, INFO)
    assert shapes(instrument.profile()) == [leaf("ByHand")]


@pytest.mark.anyio
async def test_calls_that_are_over_leave_nothing_in_memory_however_they_ended() -> None:
    instrument = PassTimingInstrument()

    @apass.module_pass(opt_level=0)
    async def TakeOut(mod: Module, ctx: apass.PassContext) -> Module:
        await ctx.override_instruments([])
        return mod

    def held() -> int:
        gc.collect()
        return sum(type(one) is apass.Run for one in gc.get_objects())

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
