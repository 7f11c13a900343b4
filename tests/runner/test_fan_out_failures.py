"""Concurrent function passes: errors, cancellation and time limits."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import CORO_CLOSED, getcoroutinestate
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import DiagnosticLevel, PassContext, Sequential, function_pass, module_pass
from apass.errors import PassTimeoutError
from tests.helpers.context_state import state_of
from tests.helpers.recording import FunctionBody, function_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


async def wait_forever() -> None:
    await anyio.sleep_forever()


@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda"])
async def test_single_error_is_raised_unchanged_with_location_note(kind: str) -> None:
    error = KeyError("of the body")

    def fail(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 2:
            raise error
        return func

    async def fail_async(func: int, mod: Module, ctx: PassContext) -> int:
        if kind != "async":
            await checkpoint()
        return fail(func, mod, ctx)

    bodies: dict[str, FunctionBody] = {"plain": fail, "lambda": lambda func, mod, ctx: fail_async(func, mod, ctx)}
    pipeline = Sequential([function_pass_of(bodies.get(kind, fail_async), 0, "Bad")], name="S")
    with pytest.raises(KeyError) as caught:
        await apass.optimize_all({"resnet": {"f": 1, "g": 2, "h": 3}}, pipeline)
    assert (caught.value is error, error.__notes__) == (True, ["in pass 'S > Bad', function 'g', module 'resnet'"])
    assert (error.__cause__, error.__context__) == (None, None)


async def test_first_error_cancels_other_bodies() -> None:
    cancelled: list[int] = []
    all_wait = anyio.Event()

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 9:
            all_wait.set()
        try:
            await all_wait.wait()
            if func == 4:
                raise KeyError("of the body")
            await wait_forever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(func)
            raise
        return func

    with pytest.raises(KeyError) as caught:
        await Bad({f"f{n}": n for n in range(10)})
    assert sorted(cancelled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert caught.value.__notes__ == ["in pass 'Bad', function 'f4'"]


async def test_several_errors_become_one_flat_group() -> None:
    started: set[int] = set()
    all_started = anyio.Event()

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        started.add(func)
        if len(started) == 3:
            all_started.set()
        try:
            await (all_started.wait() if func == 0 else wait_forever())
        finally:
            # The first body fails by itself, the others while they are cancelled.
            raise ValueError(func)
        return func

    @function_pass(opt_level=0)
    async def Outer(func: int, mod: Module, ctx: PassContext) -> int:
        await Bad({f"f{n}": n for n in range(3)})
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Outer({"main": 0})
    errors = {(type(error), error.args, *error.__notes__) for error in caught.value.exceptions}
    note = "in pass 'Outer > Bad', function 'f{}', for function 'main' of 'Outer'"
    assert errors == {(ValueError, (n,), note.format(n)) for n in range(3)}


@pytest.mark.parametrize("functions", [1, 5])
async def test_group_raised_by_body_is_raised_unchanged(functions: int) -> None:
    group = ExceptionGroup("of the body", [ValueError(1), ExceptionGroup("inner", [KeyError(2)])])

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        if func == 0:
            raise group
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Bad({f"f{n}": n for n in range(functions)})
    assert (caught.value is group, group.__notes__) == (True, ["in pass 'Bad', function 'f0'"])


async def test_cancelled_task_group_in_body_adds_no_error() -> None:
    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("of the body")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait_forever)
        return func

    with pytest.raises(KeyError, match="of the body"):
        await Bad({"f": 0, "g": 1, "h": 2})


async def test_failing_task_group_in_body_adds_its_errors() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await wait_forever()
        finally:
            raise ValueError("while cancelled")

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("of the body")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_forever)
            tasks.start_soon(fail_when_cancelled)
            await wait_forever()
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Bad({"f": 0, "g": 1})
    assert sorted(type(error).__name__ for error in caught.value.exceptions) == ["KeyError", "ValueError"]


async def test_awaitables_of_plain_bodies_are_closed_on_error() -> None:
    async def return_one() -> int:
        return 1

    coroutine = return_one()

    def return_or_fail(func: int, mod: Module, ctx: PassContext) -> Any:
        if func == 2:
            raise KeyError("of the body")
        return coroutine

    with pytest.raises(KeyError):
        await function_pass_of(return_or_fail, 0, "Bad")({"f": 1, "g": 2})
    assert getcoroutinestate(coroutine) == CORO_CLOSED


async def test_cancellation_between_plain_bodies_has_no_note() -> None:
    notes: list[str] = []

    def stop(func: int, mod: Module, ctx: PassContext) -> int:
        scope.cancel()
        state_of(ctx).scheduler.slice_ends = 0.0
        return func

    with anyio.CancelScope() as scope:
        try:
            await function_pass(stop, 0, "Stop")({"f": 1, "g": 2})
        except anyio.get_cancelled_exc_class() as error:
            notes += getattr(error, "__notes__", [])
            raise
    assert (scope.cancelled_caught, notes) == (True, [])


async def test_error_raised_twice_has_note_for_each_location() -> None:
    error = KeyError("one object for all")

    @module_pass(opt_level=0)
    async def Bad(mod: Module, ctx: PassContext) -> Module:
        raise error

    await apass.optimize_all({"a": {}, "b": {}}, Bad, errors="collect", limit=1)
    assert error.__notes__ == ["in pass 'Bad', module 'a'", "in pass 'Bad', module 'b'"]


# Time limits, and errors recovered by `on_error`.


@pytest.mark.usefixtures("idle_clock")
@pytest.mark.parametrize("functions", [1, 3])
async def test_timeout_error_has_location_note(functions: int) -> None:
    @function_pass(opt_level=0, timeout=0.2)
    async def Slow(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await wait_forever()
        return func

    with pytest.raises(PassTimeoutError) as caught:
        await Slow({f"f{n}": n for n in range(functions)})
    assert str(caught.value) == "the body of pass 'Slow' took longer than 0.2 s"
    assert caught.value.__notes__ == ["in pass 'Slow', function 'f0'"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_body_without_suspension_can_time_out(is_async: bool) -> None:
    def block(func: int, mod: Module, ctx: PassContext) -> int:
        end = perf_counter() + 0.02
        while perf_counter() < end:
            pass
        return func + 1

    async def block_async(func: int, mod: Module, ctx: PassContext) -> int:
        return block(func, mod, ctx)

    with pytest.raises(PassTimeoutError):
        await function_pass_of(block_async if is_async else block, 0, "Block", timeout=0.001)({"f": 1, "g": 2})


@pytest.mark.usefixtures("idle_clock")
async def test_on_error_keep_warns_and_keeps_function() -> None:
    @function_pass(opt_level=0, timeout=0.2, on_error="keep")
    async def Try(func: int, mod: Module, ctx: PassContext) -> int:
        await (wait_forever() if func == 1 else checkpoint())
        if func == 2:
            raise KeyError("of the body")
        return func * 10

    async with PassContext() as ctx:
        assert await apass.optimize_all({"m": {"a": 1, "b": 2, "c": 3}}, Try) == {"m": {"a": 1, "b": 2, "c": 30}}
    diagnostics = sorted(ctx.diag_ctx.diagnostics, key=lambda diagnostic: diagnostic.function or "")
    assert [
        (diagnostic.level, diagnostic.pass_name, diagnostic.function, diagnostic.module) for diagnostic in diagnostics
    ] == [
        (DiagnosticLevel.WARNING, "Try", "a", "m"),
        (DiagnosticLevel.WARNING, "Try", "b", "m"),
    ]
    assert "took longer than 0.2 s" in diagnostics[0].message
    assert "KeyError: 'of the body'" in diagnostics[1].message


async def test_on_error_keep_does_not_catch_cancellation() -> None:
    @function_pass(opt_level=0, on_error="keep")
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        await wait_forever()
        return func

    async with PassContext() as ctx:
        with anyio.move_on_after(0.01) as scope:
            await Wait({"f": 1, "g": 2})
    assert (scope.cancelled_caught, ctx.diag_ctx.diagnostics, state_of(ctx).scheduler.free) == (True, (), 256)


async def failing(func: int) -> int:
    """Raise after one checkpoint."""
    await checkpoint()
    raise KeyError(func)


async def hanging(func: int) -> int:
    """Wait forever."""
    await wait_forever()
    return func


@pytest.mark.parametrize("body_of", [failing, hanging])
async def test_unawaited_coroutines_are_closed(body_of: Callable[[int], Awaitable[int]]) -> None:
    coroutines: list[Any] = []

    def body(func: int, mod: Module, ctx: PassContext) -> Any:
        coroutines.append(body_of(func))
        return coroutines[-1]

    with anyio.CancelScope() as scope:
        async with PassContext(max_concurrency=1), anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_all_wait, scope)
            with suppress(KeyError):
                await function_pass_of(body, 0, "Lambda")(dict.fromkeys("abcdef", 1))
    assert [getcoroutinestate(coroutine) for coroutine in coroutines] == [CORO_CLOSED] * 6


async def cancel_when_all_wait(scope: anyio.CancelScope) -> None:
    """Cancel `scope` once all tasks are blocked."""
    await anyio.wait_all_tasks_blocked()
    scope.cancel()
