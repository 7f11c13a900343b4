"""`PassContext`: what is current where, how instruments are entered and left, and what a bad context says."""

from itertools import pairwise
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, PassContextError
from tests.helpers.recording import Recorder, SuspendingRecorder, logging_pass

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


async def current_in_new_task() -> PassContext:
    """Return what is current in a task started here."""
    found: list[PassContext] = []

    async def ask() -> None:
        found.append(PassContext.current())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
    return found[0]


# What is current.


async def test_without_a_context_a_default_one_of_level_2_is_current() -> None:
    ctx = PassContext.current()
    options = (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, dict(ctx.config))
    assert options == (2, frozenset(), frozenset(), (), {})


async def test_the_default_context_is_one_for_the_task_that_asks_and_those_it_starts() -> None:
    ctx = PassContext.current()
    assert (await current_in_new_task() is ctx, PassContext.current() is ctx) == (True, True)


async def test_the_default_context_is_one_for_all_tasks_of_a_tree_whichever_asks_first() -> None:
    first, second = await current_in_new_task(), await current_in_new_task()
    assert first is second
    assert PassContext.current() is first


async def test_the_default_context_is_that_of_worker_threads_too() -> None:
    default = PassContext.current()
    assert await anyio.to_thread.run_sync(PassContext.current) is default


async def test_the_modules_of_optimize_all_share_the_default_context() -> None:
    met: list[PassContext] = []

    @apass.module_pass(opt_level=0)
    def Meet(mod: Module, ctx: PassContext) -> Module:
        met.append(ctx)
        return mod

    await apass.optimize_all([{}, {}, {}], Meet)
    assert [ctx is PassContext.current() for ctx in met] == [True, True, True]


async def test_a_context_is_current_within_its_block_only() -> None:
    outside = PassContext.current()
    async with PassContext(opt_level=1) as outer:
        async with PassContext(opt_level=3) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current() is outside


async def test_a_task_inherits_what_is_current_where_it_is_started() -> None:
    async with PassContext(opt_level=3) as ctx:
        assert await current_in_new_task() is ctx


async def test_a_task_keeps_what_it_inherited_when_its_starter_moves_on() -> None:
    moved, found = anyio.Event(), list[PassContext]()

    async def ask_later() -> None:
        await moved.wait()
        found.append(PassContext.current())

    ctx = PassContext()
    async with anyio.create_task_group() as tasks:
        async with ctx:
            tasks.start_soon(ask_later)
            await checkpoint()
        moved.set()
    assert found[0] is ctx


async def test_a_task_never_sees_the_context_of_a_sibling() -> None:
    seen: dict[int, list[int]] = {}

    async def work(level: int) -> None:
        async with PassContext(opt_level=level):
            await checkpoint()
            seen[level] = [PassContext.current().opt_level]
            async with PassContext(opt_level=level + 100):
                await checkpoint()
                seen[level].append(PassContext.current().opt_level)
            seen[level].append(PassContext.current().opt_level)

    async with anyio.create_task_group() as tasks:
        for level in range(10):
            tasks.start_soon(work, level)
    assert seen == {level: [level, level + 100, level] for level in range(10)}


async def test_one_context_is_entered_by_many_tasks_at_once() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[SuspendingRecorder("A", log)])
    all_in, inside = anyio.Event(), list[bool]()

    async def work() -> None:
        async with ctx:
            inside.append(PassContext.current() is ctx)
            if len(inside) == 5:
                all_in.set()
            await all_in.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(work)
    assert (inside, sorted(log)) == ([True] * 5, ["A.enter_pass_ctx"] * 5 + ["A.exit_pass_ctx"] * 5)


async def test_a_context_can_be_entered_nested_and_again() -> None:
    log: list[str] = []
    ctx, other = PassContext(instruments=[Recorder("A", log)]), PassContext()
    async with ctx:
        async with other:
            async with ctx:
                assert PassContext.current() is ctx
            assert PassContext.current() is other
        assert PassContext.current() is ctx
    async with ctx:
        assert PassContext.current() is ctx
    assert log == ["A.enter_pass_ctx"] * 2 + ["A.exit_pass_ctx"] * 2 + ["A.enter_pass_ctx", "A.exit_pass_ctx"]


# Leaving out of order.


async def test_leaving_what_was_never_entered_is_told_as_that() -> None:
    async with PassContext(opt_level=3):
        with pytest.raises(
            PassContextError, match=r"^PassContext\(opt_level=1\) was left in a task that had not entered"
        ):
            await PassContext(opt_level=1).__aexit__(None, None, None)


async def test_a_task_does_not_leave_what_the_one_that_started_it_has_entered_twice() -> None:
    async def leave() -> None:
        with pytest.raises(PassContextError, match=r"^PassContext\(opt_level=1\) was left in a task that had not"):
            await ctx.__aexit__(None, None, None)

    ctx = PassContext(opt_level=1)
    async with ctx, ctx, anyio.create_task_group() as tasks:
        tasks.start_soon(leave)


async def test_leaving_out_of_order_is_an_error_that_harms_nothing() -> None:
    log: list[str] = []
    before = PassContext.current()
    outer, inner = PassContext(1, instruments=[Recorder("O", log)]), PassContext(3, instruments=[Recorder("I", log)])
    await outer.__aenter__()
    await inner.__aenter__()
    with pytest.raises(PassContextError) as caught:
        await outer.__aexit__(None, None, None)
    assert "PassContext(opt_level=1, instruments=[O]) was left while" in str(caught.value)
    assert PassContext.current() is inner
    await inner.__aexit__(None, None, None)
    assert PassContext.current() is outer
    await outer.__aexit__(None, None, None)
    assert (PassContext.current() is before, log) == (
        True,
        ["O.enter_pass_ctx", "I.enter_pass_ctx", "I.exit_pass_ctx", "O.exit_pass_ctx"],
    )


async def test_a_context_that_was_not_entered_cannot_be_left() -> None:
    with pytest.raises(PassContextError):
        await PassContext().__aexit__(None, None, None)


async def test_a_task_cannot_leave_a_context_that_another_one_entered() -> None:
    log: list[str] = []
    async with PassContext(instruments=[Recorder("A", log)]) as ctx, anyio.create_task_group() as tasks:
        tasks.start_soon(leave_in_vain, ctx)
    assert log == ["A.enter_pass_ctx", "A.exit_pass_ctx"]


async def leave_in_vain(ctx: PassContext) -> None:
    with pytest.raises(PassContextError):
        await ctx.__aexit__(None, None, None)


async def test_with_in_place_of_async_with_says_so() -> None:
    with pytest.raises(PassContextError, match="write `async with PassContext"), PassContext():
        pass


# Entering.


async def test_instruments_are_entered_in_order_before_the_context_is_current() -> None:
    before = PassContext.current()
    seen: list[bool] = []

    class Look:
        def enter_pass_ctx(self) -> None:
            seen.append(PassContext.current() is before)

    async with PassContext(instruments=[Look(), Look()]):
        pass
    assert seen == [True, True]


@pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])
async def test_a_failed_enter_undoes_the_entered_in_reverse_and_clears(recorder: type[Recorder]) -> None:
    log: list[str] = []
    row = [recorder("A", log), recorder("B", log), recorder("C", log, fails=["enter_pass_ctx"]), recorder("D", log)]
    before, ctx = PassContext.current(), PassContext(instruments=row)
    with pytest.raises(ValueError, match=r"C.enter_pass_ctx"):
        await ctx.__aenter__()
    assert log == ["A.enter_pass_ctx", "B.enter_pass_ctx", "C.enter_pass_ctx", "B.exit_pass_ctx", "A.exit_pass_ctx"]
    assert (ctx.instruments, PassContext.current() is before) == ((), True)


@pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])
async def test_when_entering_and_the_exits_after_it_fail_one_flat_group_holds_all(recorder: type[Recorder]) -> None:
    log: list[str] = []
    fails = ["exit_pass_ctx"]
    row = [recorder("A", log, fails), recorder("B", log), recorder("C", log, fails)]
    ctx = PassContext(instruments=[*row, recorder("D", log, ["enter_pass_ctx"])])
    with pytest.raises(ExceptionGroup) as caught:
        await ctx.__aenter__()
    assert [str(error) for error in caught.value.exceptions] == [
        "D.enter_pass_ctx",
        "C.exit_pass_ctx",
        "A.exit_pass_ctx",
    ]
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)  # what failed first is in it
    assert log[-3:] == ["C.exit_pass_ctx", "B.exit_pass_ctx", "A.exit_pass_ctx"]
    assert ctx.instruments == ()


async def test_what_was_cleared_stays_cleared() -> None:
    log: list[str] = []
    ctx = PassContext(opt_level=3, instruments=[Recorder("A", log, ["enter_pass_ctx"])])
    with pytest.raises(ValueError, match=r"A.enter_pass_ctx"):
        await ctx.__aenter__()
    async with ctx:
        await logging_pass(log, "P")({})
    assert log == ["A.enter_pass_ctx", "run P"]


# Leaving.


async def test_the_context_is_no_longer_current_when_its_instruments_are_left() -> None:
    before, seen = PassContext.current(), list[bool]()

    class Look:
        async def exit_pass_ctx(self) -> None:
            await checkpoint()
            seen.append(PassContext.current() is before)

    async with PassContext(instruments=[Look()]):
        pass
    assert seen == [True]


@pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])
async def test_a_failed_exit_ends_the_exits_and_clears(recorder: type[Recorder]) -> None:
    log: list[str] = []
    row = [recorder("A", log), recorder("B", log, ["exit_pass_ctx"]), recorder("C", log, ["exit_pass_ctx"])]
    before, ctx = PassContext.current(), PassContext(instruments=row)
    await ctx.__aenter__()
    with pytest.raises(ValueError, match=r"B.exit_pass_ctx"):
        await ctx.__aexit__(None, None, None)
    assert log[3:] == ["A.exit_pass_ctx", "B.exit_pass_ctx"]
    assert (ctx.instruments, PassContext.current() is before) == ((), True)


@pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])
async def test_the_error_of_an_exit_is_chained_on_that_of_the_body(recorder: type[Recorder]) -> None:
    body_error = KeyError("of the body")
    with pytest.raises(ValueError, match=r"A.exit_pass_ctx") as caught:
        async with PassContext(instruments=[recorder("A", [], ["exit_pass_ctx"])]):
            raise body_error
    assert caught.value.__context__ is body_error


@pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])
async def test_the_error_of_the_body_comes_out_as_it_is(recorder: type[Recorder]) -> None:
    log: list[str] = []
    body_error = KeyError("of the body")
    with pytest.raises(KeyError) as caught:
        async with PassContext(instruments=[recorder("A", log)]):
            raise body_error
    assert (caught.value is body_error, body_error.__context__, log) == (
        True,
        None,
        ["A.enter_pass_ctx", "A.exit_pass_ctx"],
    )


# Overriding the instruments.


@pytest.mark.parametrize("recorder", [Recorder, SuspendingRecorder])
async def test_override_leaves_the_old_in_order_and_enters_the_new(recorder: type[Recorder]) -> None:
    log: list[str] = []
    old, new = [recorder("A", log), recorder("B", log)], [recorder("C", log), recorder("D", log)]
    async with PassContext(instruments=old) as ctx:
        log.clear()
        await ctx.override_instruments(new)
        assert log == ["A.exit_pass_ctx", "B.exit_pass_ctx", "C.enter_pass_ctx", "D.enter_pass_ctx"]
        assert ctx.instruments == tuple(new)
        log.clear()
    assert log == ["C.exit_pass_ctx", "D.exit_pass_ctx"]


async def test_override_that_fails_in_the_old_clears_and_enters_nothing() -> None:
    log: list[str] = []
    async with PassContext(instruments=[Recorder("A", log, ["exit_pass_ctx"]), Recorder("B", log)]) as ctx:
        log.clear()
        with pytest.raises(ValueError, match=r"A.exit_pass_ctx"):
            await ctx.override_instruments([Recorder("C", log)])
        assert (log, ctx.instruments) == (["A.exit_pass_ctx"], ())


async def test_override_that_fails_in_the_new_undoes_those_entered_and_clears() -> None:
    log: list[str] = []
    async with PassContext(instruments=[Recorder("A", log)]) as ctx:
        log.clear()
        with pytest.raises(ValueError, match=r"C.enter_pass_ctx"):
            await ctx.override_instruments([Recorder("B", log), Recorder("C", log, ["enter_pass_ctx"])])
        assert ctx.instruments == ()
    assert log == ["A.exit_pass_ctx", "B.enter_pass_ctx", "C.enter_pass_ctx", "B.exit_pass_ctx"]


@pytest.mark.parametrize("old", [[], ["A"]], ids=["where there were none", "where there was one"])
async def test_a_pass_at_work_uses_the_instruments_now_in_force(old: list[str]) -> None:
    log: list[str] = []

    async def override(mod: Module) -> Module:
        await PassContext.current().override_instruments([Recorder("B", log)])
        return mod

    async with PassContext(instruments=[Recorder(name, log) for name in old]):
        await apass.Sequential([logging_pass(log, "P", body=override), logging_pass(log, "Q")])({})
    assert [event for event in log if not event.startswith("A.")] == [
        "run P",
        "B.enter_pass_ctx",
        "B.run_after_pass P",
        "B.should_run Q",
        "B.run_before_pass Q",
        "run Q",
        "B.run_after_pass Q",
        "B.run_after_pass sequential",
        "B.exit_pass_ctx",
    ]


async def test_instruments_can_be_set_on_the_default_context() -> None:
    log: list[str] = []
    await PassContext.current().override_instruments([Recorder("A", log)])
    await logging_pass(log, "P")({})
    await PassContext.current().override_instruments(None)
    assert log == [
        "A.enter_pass_ctx",
        "A.should_run P",
        "A.run_before_pass P",
        "run P",
        "A.run_after_pass P",
        "A.exit_pass_ctx",
    ]


async def test_the_chain_of_contexts_survives_any_depth() -> None:
    contexts = [PassContext(opt_level=level) for level in range(500)]
    for ctx in contexts:
        await ctx.__aenter__()
    for inner, outer in pairwise(reversed(contexts)):
        await inner.__aexit__(None, None, None)
        assert PassContext.current() is outer
    await contexts[0].__aexit__(None, None, None)
