"""`PassContext`: the current context, entering and leaving, and instruments."""

from dataclasses import FrozenInstanceError
from itertools import pairwise
from typing import Any

import anyio
import anyio.to_thread
import pytest
from anyio.abc import TaskStatus
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext
from apass.core.context import current_scope
from apass.errors import PassContextError
from apass.testing import RecordingInstrument
from tests.helpers.recording import SuspendingRecorder, logging_pass

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


async def current_in_new_task() -> PassContext:
    """Return the current context of a new task."""
    contexts: list[PassContext] = []

    async def read_current() -> None:
        contexts.append(PassContext.current())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_current)
    return contexts[0]


FIELDS = ["opt_level", "disabled_pass", "config", "deadline", "store", "strict", "_state", "instruments", "x"]


@pytest.mark.parametrize("name", FIELDS)
async def test_attributes_of_context_cannot_be_assigned(name: str) -> None:
    ctx = PassContext(opt_level=3)
    with pytest.raises(FrozenInstanceError, match=f"cannot assign to field '{name}'"):
        setattr(ctx, name, 1)
    with pytest.raises(FrozenInstanceError, match=f"cannot delete field '{name}'"):
        delattr(ctx, name)
    assert ctx.opt_level == 3


# The current context.


async def test_default_context_has_opt_level_2() -> None:
    ctx = PassContext.current()
    options = (ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, dict(ctx.config))
    assert options == (2, frozenset(), frozenset(), (), {})


async def test_default_context_is_shared_with_new_tasks() -> None:
    ctx = PassContext.current()
    assert (await current_in_new_task() is ctx, PassContext.current() is ctx) == (True, True)


async def test_default_context_is_shared_between_sibling_tasks() -> None:
    first, second = await current_in_new_task(), await current_in_new_task()
    assert first is second
    assert PassContext.current() is first


async def test_default_context_is_shared_with_worker_threads() -> None:
    default = PassContext.current()
    assert await anyio.to_thread.run_sync(PassContext.current) is default


async def test_optimize_all_shares_default_context() -> None:
    contexts: list[PassContext] = []

    @apass.module_pass(opt_level=0)
    def RecordContext(mod: Module, ctx: PassContext) -> Module:
        contexts.append(ctx)
        return mod

    await apass.optimize_all([{}, {}, {}], RecordContext)
    assert [ctx is PassContext.current() for ctx in contexts] == [True, True, True]


async def test_context_is_current_only_within_its_block() -> None:
    outside = PassContext.current()
    async with PassContext(opt_level=1) as outer:
        async with PassContext(opt_level=3) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current() is outside


async def test_task_inherits_current_context() -> None:
    async with PassContext(opt_level=3) as ctx:
        assert await current_in_new_task() is ctx


async def test_task_keeps_inherited_context_after_parent_leaves() -> None:
    left, contexts = anyio.Event(), list[PassContext]()

    async def read_later() -> None:
        await left.wait()
        contexts.append(PassContext.current())

    ctx = PassContext()
    async with anyio.create_task_group() as tasks:
        async with ctx:
            tasks.start_soon(read_later)
            await checkpoint()
        left.set()
    assert contexts[0] is ctx


async def test_task_does_not_see_context_of_sibling() -> None:
    levels: dict[int, list[int]] = {}

    async def work(level: int) -> None:
        async with PassContext(opt_level=level):
            await checkpoint()
            levels[level] = [PassContext.current().opt_level]
            async with PassContext(opt_level=level + 100):
                await checkpoint()
                levels[level].append(PassContext.current().opt_level)
            levels[level].append(PassContext.current().opt_level)

    async with anyio.create_task_group() as tasks:
        for level in range(10):
            tasks.start_soon(work, level)
    assert levels == {level: [level, level + 100, level] for level in range(10)}


async def test_many_tasks_can_enter_one_context() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[SuspendingRecorder("A", log)])
    all_entered, is_current = anyio.Event(), list[bool]()

    async def work() -> None:
        async with ctx:
            is_current.append(PassContext.current() is ctx)
            if len(is_current) == 5:
                all_entered.set()
            await all_entered.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(work)
    assert (is_current, sorted(log)) == ([True] * 5, ["A.enter_pass_ctx"] * 5 + ["A.exit_pass_ctx"] * 5)


async def test_context_can_be_entered_nested_and_again() -> None:
    log: list[str] = []
    ctx, other = PassContext(instruments=[RecordingInstrument("A", log)]), PassContext()
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


async def test_leaving_context_never_entered_raises() -> None:
    async with PassContext(opt_level=3):
        with pytest.raises(
            PassContextError, match=r"^PassContext\(opt_level=1\) was left in a task that had not entered"
        ):
            await PassContext(opt_level=1).__aexit__(None, None, None)


async def test_task_cannot_leave_inherited_context_entered_twice() -> None:
    async def leave() -> None:
        with pytest.raises(PassContextError, match=r"^PassContext\(opt_level=1\) was left in a task that had not"):
            await ctx.__aexit__(None, None, None)

    ctx = PassContext(opt_level=1)
    async with ctx, ctx, anyio.create_task_group() as tasks:
        tasks.start_soon(leave)


async def test_leaving_out_of_order_raises_and_keeps_state() -> None:
    log: list[str] = []
    before = PassContext.current()
    outer, inner = (
        PassContext(1, instruments=[RecordingInstrument("O", log)]),
        PassContext(3, instruments=[RecordingInstrument("I", log)]),
    )
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


async def test_leaving_unentered_context_raises() -> None:
    with pytest.raises(PassContextError):
        await PassContext().__aexit__(None, None, None)


async def test_task_cannot_leave_context_entered_by_parent() -> None:
    log: list[str] = []
    async with PassContext(instruments=[RecordingInstrument("A", log)]) as ctx, anyio.create_task_group() as tasks:
        tasks.start_soon(assert_leaving_raises, ctx)
    assert log == ["A.enter_pass_ctx", "A.exit_pass_ctx"]


async def assert_leaving_raises(ctx: PassContext) -> None:
    with pytest.raises(PassContextError):
        await ctx.__aexit__(None, None, None)


async def test_plain_with_raises_and_suggests_async_with() -> None:
    with pytest.raises(PassContextError, match="write `async with PassContext"), PassContext():
        pass


# Entering.


async def test_instruments_are_entered_before_context_is_current() -> None:
    before = PassContext.current()
    was_outside: list[bool] = []

    class RecordCurrent:
        def enter_pass_ctx(self) -> None:
            was_outside.append(PassContext.current() is before)

    async with PassContext(instruments=[RecordCurrent(), RecordCurrent()]):
        pass
    assert was_outside == [True, True]


@pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])
async def test_failed_enter_exits_entered_instruments_and_clears(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    instruments = [
        recorder("A", log),
        recorder("B", log),
        recorder("C", log, fails=["enter_pass_ctx"]),
        recorder("D", log),
    ]
    before, ctx = PassContext.current(), PassContext(instruments=instruments)
    with pytest.raises(ValueError, match=r"C.enter_pass_ctx"):
        await ctx.__aenter__()
    assert log == ["A.enter_pass_ctx", "B.enter_pass_ctx", "C.enter_pass_ctx", "B.exit_pass_ctx", "A.exit_pass_ctx"]
    assert (ctx.instruments, PassContext.current() is before) == ((), True)


@pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])
async def test_failed_enter_and_exits_raise_one_group(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    fails = ["exit_pass_ctx"]
    instruments = [recorder("A", log, fails), recorder("B", log), recorder("C", log, fails)]
    ctx = PassContext(instruments=[*instruments, recorder("D", log, ["enter_pass_ctx"])])
    with pytest.raises(ExceptionGroup) as caught:
        await ctx.__aenter__()
    assert [str(error) for error in caught.value.exceptions] == [
        "D.enter_pass_ctx",
        "C.exit_pass_ctx",
        "A.exit_pass_ctx",
    ]
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (
        None,
        True,
    )  # the first error is a member of the group
    assert log[-3:] == ["C.exit_pass_ctx", "B.exit_pass_ctx", "A.exit_pass_ctx"]
    assert ctx.instruments == ()


async def test_cleared_instruments_stay_cleared() -> None:
    log: list[str] = []
    ctx = PassContext(opt_level=3, instruments=[RecordingInstrument("A", log, ["enter_pass_ctx"])])
    with pytest.raises(ValueError, match=r"A.enter_pass_ctx"):
        await ctx.__aenter__()
    async with ctx:
        await logging_pass(log, "P")({})
    assert log == ["A.enter_pass_ctx", "run P"]


# Leaving.


async def test_instruments_exit_after_context_is_no_longer_current() -> None:
    before, was_outside = PassContext.current(), list[bool]()

    class RecordCurrent:
        async def exit_pass_ctx(self) -> None:
            await checkpoint()
            was_outside.append(PassContext.current() is before)

    async with PassContext(instruments=[RecordCurrent()]):
        pass
    assert was_outside == [True]


@pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])
async def test_failed_exit_skips_remaining_exits_and_clears(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    instruments = [recorder("A", log), recorder("B", log, ["exit_pass_ctx"]), recorder("C", log, ["exit_pass_ctx"])]
    before, ctx = PassContext.current(), PassContext(instruments=instruments)
    await ctx.__aenter__()
    with pytest.raises(ValueError, match=r"B.exit_pass_ctx"):
        await ctx.__aexit__(None, None, None)
    assert log[3:] == ["A.exit_pass_ctx", "B.exit_pass_ctx"]
    assert (ctx.instruments, PassContext.current() is before) == ((), True)


@pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])
async def test_exit_error_has_body_error_as_context(recorder: type[RecordingInstrument]) -> None:
    body_error = KeyError("of the body")
    with pytest.raises(ValueError, match=r"A.exit_pass_ctx") as caught:
        async with PassContext(instruments=[recorder("A", [], ["exit_pass_ctx"])]):
            raise body_error
    assert caught.value.__context__ is body_error


@pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])
async def test_body_error_is_raised_unchanged(recorder: type[RecordingInstrument]) -> None:
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


@pytest.mark.parametrize("recorder", [RecordingInstrument, SuspendingRecorder])
async def test_override_exits_old_and_enters_new_instruments(recorder: type[RecordingInstrument]) -> None:
    log: list[str] = []
    old, new = [recorder("A", log), recorder("B", log)], [recorder("C", log), recorder("D", log)]
    async with PassContext(instruments=old) as ctx:
        log.clear()
        await ctx.override_instruments(new)
        assert log == ["A.exit_pass_ctx", "B.exit_pass_ctx", "C.enter_pass_ctx", "D.enter_pass_ctx"]
        assert ctx.instruments == tuple(new)
        log.clear()
    assert log == ["C.exit_pass_ctx", "D.exit_pass_ctx"]


async def test_override_clears_instruments_when_exit_fails() -> None:
    log: list[str] = []
    async with PassContext(
        instruments=[RecordingInstrument("A", log, ["exit_pass_ctx"]), RecordingInstrument("B", log)]
    ) as ctx:
        log.clear()
        with pytest.raises(ValueError, match=r"A.exit_pass_ctx"):
            await ctx.override_instruments([RecordingInstrument("C", log)])
        assert (log, ctx.instruments) == (["A.exit_pass_ctx"], ())


async def test_override_clears_instruments_when_enter_fails() -> None:
    log: list[str] = []
    async with PassContext(instruments=[RecordingInstrument("A", log)]) as ctx:
        log.clear()
        with pytest.raises(ValueError, match=r"C.enter_pass_ctx"):
            await ctx.override_instruments(
                [RecordingInstrument("B", log), RecordingInstrument("C", log, ["enter_pass_ctx"])]
            )
        assert ctx.instruments == ()
    assert log == ["A.exit_pass_ctx", "B.enter_pass_ctx", "C.enter_pass_ctx", "B.exit_pass_ctx"]


async def test_concurrent_overrides_wait_for_each_other() -> None:
    log: list[str] = []
    async with PassContext(instruments=[SuspendingRecorder("A", log)]) as ctx, anyio.create_task_group() as tasks:
        for name in "BCD":
            tasks.start_soon(ctx.override_instruments, [SuspendingRecorder(name, log)])
    # Trio starts the tasks in any order.
    pairs = sorted(zip(log[::2], log[1::2], strict=True))
    assert pairs == [(f"{name}.enter_pass_ctx", f"{name}.exit_pass_ctx") for name in "ABCD"]


async def test_cancelled_override_leaves_place_to_the_next() -> None:
    log: list[str] = []
    async with PassContext(instruments=[SuspendingRecorder("A", log)]) as ctx:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ctx.override_instruments, [SuspendingRecorder("B", log)])
            await checkpoint()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await ctx.override_instruments([SuspendingRecorder("C", log)])
        await ctx.override_instruments([SuspendingRecorder("D", log)])
    assert log == [f"{name}.{hook}_pass_ctx" for name in ("A", "B", "D") for hook in ("enter", "exit")]


@pytest.mark.parametrize("hook", ["enter_pass_ctx", "exit_pass_ctx"])
async def test_override_called_by_its_own_hook_is_rejected(hook: str) -> None:
    async def override(self: object) -> None:
        await ctx.override_instruments([])

    overriding: Any = type("Overriding", (), {hook: override})
    ctx = PassContext()
    async with ctx:
        is_entering = hook == "enter_pass_ctx"
        if not is_entering:
            await ctx.override_instruments([overriding()])
        with anyio.fail_after(60), pytest.raises(PassContextError, match="was called by a hook that it calls itself"):
            await ctx.override_instruments([overriding()] if is_entering else [])
        assert ctx.instruments == ()


@pytest.mark.parametrize("old", [[], ["A"]], ids=["no old instruments", "one old instrument"])
async def test_override_applies_to_running_pass(old: list[str]) -> None:
    log: list[str] = []

    async def override(mod: Module) -> Module:
        await PassContext.current().override_instruments([RecordingInstrument("B", log)])
        return mod

    async with PassContext(instruments=[RecordingInstrument(name, log) for name in old]):
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


async def test_instruments_can_be_set_on_default_context() -> None:
    log: list[str] = []
    await PassContext.current().override_instruments([RecordingInstrument("A", log)])
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


@pytest.mark.parametrize("was_entered", [False, True])
async def test_override_outside_context_calls_no_hooks(was_entered: bool) -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[RecordingInstrument("A", log)])
    if was_entered:
        async with ctx:
            pass
        log.clear()
    await ctx.override_instruments([RecordingInstrument("B", log)])
    assert log == []
    async with ctx:
        assert log == ["B.enter_pass_ctx"]
    assert log == ["B.enter_pass_ctx", "B.exit_pass_ctx"]


async def test_override_from_another_task_calls_hooks() -> None:
    log: list[str] = []
    ctx, left = PassContext(instruments=[RecordingInstrument("A", log)]), anyio.Event()

    async def stay(*, task_status: TaskStatus[None]) -> None:
        async with ctx:
            task_status.started()
            await left.wait()

    async with anyio.create_task_group() as tasks:
        await tasks.start(stay)
        await ctx.override_instruments([RecordingInstrument("B", log)])
        left.set()
    assert log == ["A.enter_pass_ctx", "A.exit_pass_ctx", "B.enter_pass_ctx", "B.exit_pass_ctx"]


async def test_context_can_be_nested_500_deep() -> None:
    contexts = [PassContext(opt_level=level) for level in range(500)]
    for ctx in contexts:
        await ctx.__aenter__()
    for inner, outer in pairwise(reversed(contexts)):
        await inner.__aexit__(None, None, None)
        assert PassContext.current() is outer
    await contexts[0].__aexit__(None, None, None)


def test_scope_outside_of_a_loop_is_not_kept() -> None:
    assert current_scope() is not current_scope()
    first, second = (anyio.run(_scheduler) for _ in range(2))
    assert first is not second


async def _scheduler() -> object:
    return current_scope().state.scheduler
