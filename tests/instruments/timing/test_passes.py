"""`PassTimingInstrument`: the tree, its times, and the table."""

import re
from textwrap import dedent
from time import perf_counter
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.instruments import PassTiming, PassTimingInstrument, render_timings
from tests.helpers.timings import (
    CallPlain,
    Fail,
    Module,
    Plain,
    Shape,
    Suspend,
    check_times,
    leaf,
    on_each,
    shapes,
    tree,
)


def spin(seconds: float) -> None:
    """Block the event loop."""
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def timing(name: str, wall: float, busy: float, *children: PassTiming, **fields: Any) -> PassTiming:
    options: dict[str, Any] = {"module": None, "calls": 1, "failed": 0, "unfinished": 0} | fields
    return PassTiming(name=name, wall=wall, busy=busy, children=children, **options)


def test_table_shows_tree_times_counts_and_modules() -> None:
    profile = [
        timing(
            "sequential",
            2.0,
            0.5,
            timing("FoldConstant", 0.25, 0.125),
            timing("Tune", 1.5, 0.25, timing("Measure", 3.0, 0.1, calls=1000, module="kernel"), calls=4, failed=3),
        ),
        timing("Cut", 0.0, 0.0, timing("Inner", 0.001, 0.001), calls=0, unfinished=1),
        timing("sequential", 12345.6789, 1.0, timing("Fail", 0.1, 0.1, failed=1, module="a"), module="a"),
    ]
    assert render_timings(profile) == dedent(
        """
             wall ms   busy ms    waiting ms  of parent  pass
                                                         no module name
            2000.000   500.000      1500.000     100.0%    sequential
             250.000   125.000       125.000      12.5%      FoldConstant
            1500.000   250.000      1250.000      75.0%      Tune (4 calls, 3 failed)
            3000.000   100.000      2900.000     200.0%        Measure [module 'kernel'] (1000 calls)
               0.000     0.000         0.000       0.0%    Cut (1 unfinished)
               1.000     1.000         0.000                 Inner
                                                         module 'a'
        12345678.900  1000.000  12344678.900     100.0%    sequential
             100.000   100.000         0.000       0.0%      Fail (1 failed)
            """
    ).strip("\n")


def test_table_without_module_names_has_no_sections() -> None:
    assert render_timings([timing("A", 0.003, 0.001), timing("B", 0.001, 0.001)]) == dedent(
        """\
        wall ms  busy ms  waiting ms  of parent  pass
          3.000    1.000       2.000      75.0%  A
          1.000    1.000       0.000      25.0%  B"""
    )


def test_empty_profile_renders_a_message() -> None:
    assert PassTimingInstrument().render() == "no pass was timed"
    assert PassTimingInstrument().profile() == ()


@pytest.mark.anyio
async def test_tree_of_calls_is_available_after_the_context() -> None:
    @apass.module_pass(opt_level=0)
    async def Outer(mod: Module, ctx: apass.PassContext) -> Module:
        return await apass.Sequential([Plain, Suspend], name="inner")(mod)

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential([Plain, Outer, Plain])({"f": 1})
        await Plain({"f": 1})
    assert re.sub(r" *\d+\.\d{3} +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d% ", "#", instrument.render()) == dedent(
        """\
        wall ms  busy ms  waiting ms  of parent  pass
        # sequential
        #   Plain
        #   Outer
        #     inner
        #       Plain
        #       Suspend
        #       (hooks of instruments)
        #     (hooks of instruments)
        #   Plain
        #   (hooks of instruments)
        # Plain"""
    )
    check_times(instrument.profile())


@pytest.mark.anyio
async def test_wait_for_an_event_counts_as_waiting() -> None:
    started, finish = anyio.Event(), anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Wait(mod: Module, ctx: apass.PassContext) -> Module:
        started.set()
        await finish.wait()
        return mod

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]), anyio.create_task_group() as tasks:
        tasks.start_soon(Wait, {"f": 1})
        await started.wait()
        spin(0.02)
        finish.set()
    (wait,) = instrument.profile()
    assert wait.waiting >= 0.02
    check_times([wait])


@pytest.mark.anyio
async def test_work_between_waits_counts_as_busy() -> None:
    started: list[Module] = []

    @apass.module_pass(opt_level=0)
    async def Spin(mod: Module, ctx: apass.PassContext) -> Module:
        started.append(mod)
        while len(started) < 3:
            await anyio.lowlevel.checkpoint()
        spin(0.01)
        await anyio.lowlevel.checkpoint()
        spin(0.01)
        return mod

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await apass.optimize_all([{"f": 1}] * 3, apass.Sequential([Spin]))
    profile = instrument.profile()
    assert shapes(profile) == [tree("sequential", [leaf("Spin", module)], module) for module in ("0", "1", "2")]
    for item in profile:
        assert item.busy >= item.children[0].busy >= 0.02
    # Each pass waited while the two others occupied the event loop.
    assert sum(item.waiting for item in profile) >= 0.04
    check_times(profile)


@pytest.mark.anyio
async def test_fan_out_work_is_busy_for_enclosing_passes() -> None:
    @apass.function_pass(opt_level=0)
    async def SpinEach(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        spin(0.005)
        return func

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential([apass.Sequential([SpinEach], name="inner")])(dict.fromkeys("abcd", 1))
    (outer,) = instrument.profile()
    assert outer.busy >= outer.children[0].busy >= outer.children[0].children[0].busy >= 0.02
    check_times([outer])


@pytest.mark.anyio
async def test_concurrent_modules_have_a_tree_each() -> None:
    modules: dict[str, Module] = {f"m{n}": {"f": 1, "g": 2} for n in range(300)}
    pipeline = apass.Sequential([Plain, CallPlain, Suspend, Plain])
    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await apass.optimize_all(modules, pipeline, limit=None)

    def expected(module: str | None, calls: int) -> Shape:
        called = [leaf("Suspend", module, 2 * calls), leaf("Plain", module, 2 * calls)]
        first, last = leaf("Plain", module, calls), leaf("Suspend", module, calls)
        return tree("sequential", [first, tree("CallPlain", called, module, calls), last, first], module, calls)

    profile = instrument.profile()
    (merged,) = instrument.profile(merge=True)
    assert shapes(profile) == [expected(name, 1) for name in sorted(modules)]
    assert shapes([merged]) == [expected(None, 300)]
    assert merged.wall == pytest.approx(sum(item.wall for item in profile))
    assert merged.busy == pytest.approx(sum(item.busy for item in profile))
    check_times([*profile, merged])
    sections = [line.strip() for line in instrument.render().splitlines() if "module '" in line]
    assert sections == [f"module {item.module!r}" for item in profile]
    assert len(instrument.render(merge=True).splitlines()) == 10  # two are for hooks


@pytest.mark.anyio
async def test_concurrent_unnamed_modules_are_summed() -> None:
    @apass.module_pass(opt_level=0)
    async def Other(mod: Module, ctx: apass.PassContext) -> Module:
        return await CallPlain(mod)

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]), anyio.create_task_group() as tasks:
        for n in range(100):
            tasks.start_soon(CallPlain if n % 2 else Other, {"f": 1, "g": 2, "h": 3})
    called = [leaf("Suspend", calls=150), leaf("Plain", calls=150)]
    expected = [tree("CallPlain", called, calls=50), tree("Other", [tree("CallPlain", called, calls=50)], calls=50)]
    assert sorted(shapes(instrument.profile())) == expected
    check_times(instrument.profile())


@pytest.mark.anyio
async def test_modules_optimized_by_a_pass_are_its_children() -> None:
    @apass.module_pass(opt_level=0)
    async def Split(mod: Module, ctx: apass.PassContext) -> Module:
        await apass.optimize_all({"x": mod, "y": mod}, Plain)
        return mod

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await Split({"f": 1})
    assert shapes(instrument.profile()) == [tree("Split", [leaf("Plain", "x"), leaf("Plain", "y")])]
    assert shapes(instrument.profile(merge=True)) == [tree("Split", [leaf("Plain", calls=2)])]


@pytest.mark.anyio
async def test_failed_passes_are_timed_and_counted() -> None:
    modules: dict[str, Module] = {"a": {"f": 1}, "b": {"f": 2}}
    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        await on_each(modules, apass.Sequential([Plain, Fail, Plain]))
        await apass.optimize_all(modules, Plain)
    assert shapes(instrument.profile()) == [
        tree("sequential", [leaf("Plain", "a"), leaf("Fail", "a", failed=1)], "a", failed=1),
        leaf("Plain", "a"),
        tree("sequential", [leaf("Plain", "b"), leaf("Fail", "b", failed=1)], "b", failed=1),
        leaf("Plain", "b"),
    ]
    check_times(instrument.profile())


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_cancelled_passes_are_timed_and_counted() -> None:
    @apass.function_pass(opt_level=0)
    async def Sleep(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await anyio.sleep_forever()
        return func

    instrument = PassTimingInstrument()
    async with apass.PassContext(instruments=[instrument]):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(apass.Sequential([Plain, Sleep]), {"f": 1, "g": 2})
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        await Plain({"f": 1})
    children = [leaf("Plain", calls=50), leaf("Sleep", calls=50, failed=50)]
    assert shapes(instrument.profile()) == [tree("sequential", children, calls=50, failed=50), leaf("Plain")]
    check_times(instrument.profile())
